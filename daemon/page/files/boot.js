// Says so where the scripts of a page could not be loaded, or not all of one daemon. Knows nothing of them: it
// is no module, and loaded first.
(() => {
  let began = false;
  let shown = null;

  function failed() {
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

  window.addEventListener("began", () => { began = true; shown?.remove(); });
  window.addEventListener("error", (event) => {
    if (event.target === window || ["SCRIPT", "LINK"].includes(event.target.tagName)) failed();
  }, true);
  setTimeout(failed, 20000);
})();
