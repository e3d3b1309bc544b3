// Small things that several views show.

import { h } from "./dom.js";
import { clock, colour, money, roughly } from "./format.js";
import { state } from "./state.js";

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

/** Where it is said that jobs wait for the machine, and not for VMs. */
export function banner() {
  return tell(h("p.panel.banner", { role: "status" }));
}

/** Say so, as it is now. */
export function tell(shown) {
  shown.textContent = state.machine;
  shown.hidden = !state.machine;
  return shown;
}

/** When a job that waits will start, in few words, and all that is expected of it; null where nothing is. */
export function expected(jobId) {
  const found = state.estimates[jobId];
  if (!found) return null;
  const [from, to, least, most] = found;
  const now = Date.now() / 1000;
  const late = roughly(to - now);
  const early = roughly(from - now);
  const soon = to <= now ? "starts at any moment" : `starts in ${early === late ? late : `${early} – ${late}`}`;
  return { soon, whole: `starts from ${clock(from)} to ${clock(to)}, costs ${money(least)} to ${money(most)} (9 of 10 times)` };
}

/** Names with values, as a list. */
export function facts(pairs) {
  return h("dl.facts", null, pairs.filter(Boolean).map(([name, ...value]) => h("div", null, h("dt", null, name), h("dd", null, ...value))));
}
