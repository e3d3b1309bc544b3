// Begins: who asks, the header, and which view is shown for which address.

import { ask, get, may } from "./api.js";
import { fill, h, mark, say, toast } from "./dom.js";
import { follow, state } from "./state.js";
import { connect, disconnect } from "./stream.js";
import { login } from "./login.js";
import * as overview from "./overview.js";
import * as jobs from "./jobs.js";
import * as job from "./job.js";
import * as timeline from "./timeline.js";
import * as bill from "./bill.js";
import * as audit from "./audit.js";
import * as queues from "./queues.js";
import * as whatif from "./whatif.js";

const VIEWS = [
  { path: "#/", name: "Overview", view: overview },
  { path: "#/jobs", name: "Jobs", view: jobs },
  { path: "#/timeline", name: "Timeline", view: timeline, everybody: true },
  { path: "#/bill", name: "Costs", view: bill, everybody: true },
  { path: "#/what-if", name: "What if", view: whatif },
  { path: "#/audit", name: "Audit", view: audit },
  { path: "#/queues", name: "Queues", view: queues, queues: true },
];
const main = document.getElementById("main");
const live = document.getElementById("live");
let leave = () => {};
let shown = null;
let hasQueues = false;

function views() {
  const everybody = state.me?.sees !== "own";
  return VIEWS.filter((each) => (!each.everybody || everybody) && (!each.queues || hasQueues));
}

function navigate() {
  const address = location.hash || "#/";
  const path = address.split("?")[0];
  const found = path.startsWith("#/jobs/")
    ? { name: decodeURIComponent(path.slice(7)), view: job, path: "#/jobs" }
    : views().find((each) => each.path === path) ?? VIEWS[0];
  fill(document.getElementById("nav"), views().map((each) =>
    h("a", { href: each.path, "aria-current": each.path === found.path ? "page" : null }, each.name)));
  document.title = `${found.name} · Stoker`;
  leave();
  main.replaceChildren();
  const moved = shown !== null && shown !== address;
  shown = address;
  leave = found.view.show(main, found.name) ?? (() => {});
  if (moved) { window.scrollTo(0, 0); main.focus({ preventScroll: true }); }
}

async function heard(on) {
  mark(live, "on", on);
  mark(live, "off", !on);
  say(live, on ? "live" : "reconnecting");
  if (on) return;
  try {
    await get("/v1/me");
    const health = await ask("GET", "/readyz").catch((error) => error);
    const leader = health?.status === 503 ? await fetch("/readyz").then((each) => each.json()) : null;
    const why = leader && Object.entries(leader.checks ?? {}).find(([name]) => name === "leader");
    if (why) say(live, why[1]);
  } catch (error) {
    if (error.status === 401) await begin();
  }
}

/** The daemon that answers now has another page than this. */
function upgraded() {
  if (document.querySelector(".upgraded")) return;
  main.before(h("p.upgraded", { role: "alert" }, "The daemon was upgraded: this page is of its previous version. ",
    h("button", { onclick: () => location.reload() }, "Reload")));
}

async function begin() {
  disconnect();
  leave();
  leave = () => {};
  try {
    state.me = await get("/v1/me");
  } catch (error) {
    if (error.status === 401) {
      say(live, "");
      fill(document.getElementById("nav"));
      state.me = await login(main);
    } else {
      fill(main, h("p.empty", null, `The page cannot be shown: ${error.message}`));
      setTimeout(begin, 3000);
      return;
    }
  }
  const button = document.getElementById("leave");
  button.hidden = !document.cookie && !sessionStorage.getItem("session");
  button.title = state.me.name ? `You are ${state.me.name} (${state.me.role})` : `Your role: ${state.me.role}`;
  hasQueues = Boolean((await may("/v1/queues").catch(() => null))?.queues?.length);
  connect(heard, upgraded);
  navigate();
}

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  window.dispatchEvent(new Event("themed"));
}

function otherTheme() {
  const dark = !document.documentElement.classList.contains("dark");
  localStorage.setItem("theme", dark ? "dark" : "light");
  theme(dark);
}

function key(event) {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const number = Number(event.key);
  if (event.key === "t") otherTheme();
  else if (event.key === "/") {
    event.preventDefault();
    if (!location.hash.startsWith("#/jobs") || location.hash.startsWith("#/jobs/")) location.hash = "#/jobs";
    setTimeout(() => document.getElementById("find")?.focus(), 50);
  } else if (event.key === "Escape" && location.hash.startsWith("#/jobs/")) history.back();
  else if (number >= 1 && number <= views().length) location.hash = views()[number - 1].path;
}

const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = localStorage.getItem("theme");
theme(chosen ? chosen === "dark" : system.matches);
system.addEventListener("change", () => localStorage.getItem("theme") ?? theme(system.matches));
document.getElementById("theme").addEventListener("click", otherTheme);
document.getElementById("leave").addEventListener("click", async () => {
  await ask("DELETE", "/v1/session").catch((error) => toast(error.message, "bad"));
  sessionStorage.removeItem("session");
  begin();
});
window.addEventListener("hashchange", navigate);
document.addEventListener("keydown", key);
follow((what) => what.all && performance.mark("snapshot"));
window.dispatchEvent(new Event("began"));
begin();
