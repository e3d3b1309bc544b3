// The daemon's server-sent events, taken up again when they break off.

import { apply, begin, whole } from "./state.js";

let source = null;
let page = null;

/** Follow the stream; `said(on)` is told when it begins and breaks off, `upgraded` once the page is another. */
export function connect(said, upgraded) {
  disconnect();
  source = new EventSource("/v1/stream");
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("page", (told) => { if (told !== (page ??= told)) upgraded(); });
  on("snapshot", (told) => { begin(told); said(true); });
  on("rows", apply);
  on("whole", whole);
  on("change", (told) => { apply(told); said(true); });
  source.onopen = () => said(true);
  source.onerror = () => {
    said(false);
    // A browser does not come again where it was answered with anything but a stream.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => connect(said, upgraded), 3000);
  };
}

export function disconnect() {
  source?.close();
  source = null;
}
