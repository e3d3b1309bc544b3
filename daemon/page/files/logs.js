// What a job printed, as it prints it: the driver's or an executor's, bounded, as text.

import { get } from "./api.js";
import { h, say } from "./dom.js";
import { ENDED } from "./format.js";

const POLL = 2000;
/** Characters that are kept on the page. */
const MOST = 400_000;

export function logs(id) {
  const of = h("select", { "aria-label": "Whose log", onchange: again }, h("option", { value: "" }, "driver"));
  const stream = h("select", { "aria-label": "Which stream", onchange: again }, h("option", { value: "stderr" }, "stderr"), h("option", { value: "stdout" }, "stdout"));
  const note = h("span.soft");
  const text = h("pre.log", { tabindex: "0", "aria-label": "Log" });
  const element = h("section.panel", null, h("div.head", null, h("h2", null, "Log"), of, stream, h("span.grow"), note), text);
  let offset = 0;
  let waits = 0;
  let ended = false;
  let turn = 0;
  let begun = false;
  let numbers = "";

  function again() {
    offset = 0;
    turn++;
    text.replaceChildren();
    clearTimeout(waits);
    read(turn);
  }

  async function read(mine) {
    try {
      const which = of.value === "" ? "" : `&executor=${of.value}`;
      const part = await get(`/v1/jobs/${encodeURIComponent(id)}/logs?stream=${stream.value}&offset=${offset}&limit=262144${which}`);
      if (mine !== turn || ended) return;
      const follows = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
      if (part.text) {
        text.append(document.createTextNode(part.text));
        let kept = text.textContent.length;
        while (kept > MOST && text.childNodes.length > 1) { kept -= text.firstChild.length; text.firstChild.remove(); }
        if (follows) text.scrollTop = text.scrollHeight;
      }
      const moved = part.next_offset !== offset;
      offset = part.next_offset;
      say(note, part.note || (part.complete ? "complete" : "follows"));
      if (!part.complete || moved) waits = setTimeout(() => read(mine), moved && part.text.length > 100_000 ? 0 : POLL);
    } catch (error) {
      if (mine !== turn || ended) return;
      say(note, error.message);
      waits = setTimeout(() => read(mine), 2 * POLL);
    }
  }

  /** The job as it is now: which executors there are. */
  function update(job) {
    const there = job.tasks.filter((task) => task.number !== null).slice(-200).map((task) => `${task.number}`);
    if (String(there) !== numbers) {
      numbers = String(there);
      const chosen = of.value;
      of.replaceChildren(h("option", { value: "" }, "driver"), ...there.map((number) => h("option", { value: number }, `executor ${number}`)));
      of.value = chosen;
    }
    if (!begun && (job.state !== "queued" || ENDED.has(job.state))) { begun = true; again(); }
    if (!begun) say(note, "It has not started.");
  }
  return { element, update, end: () => { ended = true; clearTimeout(waits); } };
}
