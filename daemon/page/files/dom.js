// Elements, made without ever reading markup: whatever is shown is text, so names and logs cannot be more.

/** An element: `h("a.link", {href}, "text", child)`; null children are left out, `on*` are listeners. */
export function h(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className += ` ${value}`;
    else if (name === "href") element.setAttribute("href", local(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  put(element, ...children);
  return element;
}

/** Append children: elements, texts, lists of them. */
export function put(element, ...children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Let an element have these children alone. */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

/** Set a text only where it changes: layout is dear. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
  return element;
}

/** Let the class be there or not. */
export function mark(element, name, there) {
  if (element.classList.contains(name) !== there) element.classList.toggle(name, there);
}

/** A link that a browser may follow: ours, or http(s); anything else leads nowhere. */
function local(href) {
  return /^(#|\/(?!\/)|https?:\/\/)/.test(href) ? href : "#/";
}

/** A short message in a corner. */
export function toast(text, kind = "") {
  const shown = h(`div.toast${kind ? "." + kind : ""}`, null, text);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), 5000);
}

/** Copy a text, and say so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${text}`);
  } catch {
    toast("The browser does not allow this page to copy", "bad");
  }
}

/** Ask before doing something; resolves to whether it was meant. */
export function ask(title, text, verb) {
  return new Promise((resolve) => {
    const close = (meant) => { dialog.close(); dialog.remove(); resolve(meant); };
    const dialog = h("dialog", { "aria-label": title, oncancel: () => close(false) },
      h("h2", null, title), h("p.soft", null, text),
      h("div.buttons", null,
        h("button", { onclick: () => close(false), autofocus: true }, "Cancel"),
        h("button.danger.solid", { onclick: () => close(true) }, verb)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
