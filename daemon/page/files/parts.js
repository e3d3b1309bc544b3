// Small things that several views show.

import { h } from "./dom.js";
import { colour } from "./format.js";

/** A state as a chip. */
export function chip(state) {
  return h("span.chip", { class: state }, state);
}

/** A job's colour. */
export function dot(jobId) {
  const shown = h("i.dot");
  shown.style.background = colour(jobId);
  return shown;
}

/** Names with values, as a list. */
export function facts(pairs) {
  return h("dl.facts", null, pairs.filter(Boolean).map(([name, ...value]) => h("div", null, h("dt", null, name), h("dd", null, ...value))));
}
