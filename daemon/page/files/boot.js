// Loads a page once more whose scripts could not be loaded, or fail as they are not all of one daemon, and says so
// where that does not help. Knows nothing of them: it is no module, and loaded first.
(() => {
  let began = false;
  let tried = false;
  let shown = null;

  function say() {
    if (began || shown) return;
    const again = document.createElement("button");
    again.textContent = "Reload";
    again.addEventListener("click", () => location.reload());
    shown = document.createElement("p");
    shown.className = "empty failed";
    shown.setAttribute("role", "alert");
    shown.append("This page could not be loaded completely: the daemon does not answer, or it was upgraded meanwhile. ", again);
    document.getElementById("main")?.replaceChildren(shown);
    const live = document.getElementById("live");
    if (live) live.textContent = "";
  }

  // A network that has just changed, or a daemon that has just been upgraded, may be all that is wrong.
  function failed() {
    if (began || tried) return;
    tried = true; // each script that is missing comes here
    const [loaded] = performance.getEntriesByType("navigation");
    // Where nobody answers, the browser would put a page of its own in the place of this one.
    if (!loaded || loaded.type === "reload") say();
    else fetch(location.href, { cache: "no-store" }).then((answer) => (answer.ok ? location.reload() : say()), say);
  }

  window.addEventListener("began", () => { began = true; shown?.remove(); });
  window.addEventListener("error", (event) => {
    if (event.target === window || ["SCRIPT", "LINK"].includes(event.target.tagName)) failed();
  }, true);
  setTimeout(say, 20000);
})();
