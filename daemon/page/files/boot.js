// Loads a page once more whose scripts could not be loaded, or not all of one daemon, and says so where that does
// not help. Knows nothing of them: it is no module, and loaded first.
(() => {
  let began = false;
  let shown = null;

  function say() {
    if (began || shown) return;
    const again = document.createElement("button");
    again.textContent = "Reload";
    again.addEventListener("click", () => location.reload());
    shown = document.createElement("p");
    shown.className = "empty failed";
    shown.setAttribute("role", "alert");
    shown.append("This page could not be loaded whole: the daemon does not answer, or it was upgraded meanwhile. ", again);
    document.getElementById("main")?.replaceChildren(shown);
    const live = document.getElementById("live");
    if (live) live.textContent = "";
  }

  // A network that has just changed, or a daemon that has just been upgraded, may be all that is wrong.
  function failed() {
    if (performance.getEntriesByType("navigation")[0]?.type === "reload") say();
    else if (!began) location.reload();
  }

  window.addEventListener("began", () => { began = true; shown?.remove(); });
  window.addEventListener("error", (event) => {
    if (event.target === window || ["SCRIPT", "LINK"].includes(event.target.tagName)) failed();
  }, true);
  setTimeout(say, 20000);
})();
