// Asks for the token, once: it is sent in a body, and forgotten; a cookie that no script reads comes back.

import { ask, get } from "./api.js";
import { fill, h, say } from "./dom.js";

/** Ask until somebody is let in; resolves to who that is. */
export function login(main) {
  return new Promise((resolve) => {
    const token = h("input.mono", { type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "refused" });
    const refused = h("p.bad", { id: "refused", role: "alert" });
    const button = h("button.solid", { type: "submit" }, "Log in");
    const submit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        await ask("POST", "/v1/session", { token: token.value });
        sessionStorage.setItem("session", "yes");
        resolve(await get("/v1/me"));
      } catch (error) {
        say(refused, error.message);
        token.value = "";
        token.focus();
      } finally {
        button.disabled = false;
      }
    };
    fill(main, h("section.panel.login", null,
      h("h1", null, "Stoker"),
      h("p.soft", null, "This daemon requires a token: yours, or the one in its token_file."),
      h("form", { onsubmit: submit }, h("label", { for: "token" }, "Token"), token, button, refused)));
    token.focus();
  });
}
