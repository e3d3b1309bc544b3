// The queues: what each is due, what it has, and who waits there.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { cores, count, duration, memory, money, percent } from "./format.js";

const POLL = 5000;

export function show(main) {
  const body = h("div.scroll");
  const order = h("span.soft");
  main.append(h("section.panel", null, h("div.head", null, h("h2", null, "Queues"), order), body));
  let waits = 0;
  let over = false;
  async function load() {
    try {
      const found = await get("/v1/queues");
      if (over) return;
      fill(order, found.order.length ? `in order of ${found.order.join(", then ")}` : "first come, first served");
      fill(body, table(found.queues));
    } catch (error) {
      if (!over) fill(body, h("p.empty", null, error.message));
    }
    if (!over) waits = setTimeout(load, POLL);
  }
  load();
  return () => { over = true; clearTimeout(waits); };
}

function table(queues) {
  const columns = ["Queue", "Share now", "Due share", "Cores", "Memory", "Running", "Waiting", "Today", "Waits longest"];
  return h("table", null,
    h("thead", null, h("tr", null, columns.map((name, i) => h(i > 1 && i < 8 ? "th.num" : "th", null, name)))),
    h("tbody", null, queues.map((queue) => {
      const depth = queue.path.split(".").length - 1;
      const name = h("td", null, queue.leaf ? h("a", { href: `#/jobs?queue=${encodeURIComponent(queue.path)}` }, queue.path) : h("b", null, queue.path),
        queue.changed ? h("span.chip", null, "changed") : null, queue.known ? null : h("span.chip.failed", null, "removed"));
      name.style.paddingLeft = `${10 + 16 * depth}px`;
      return h("tr", null, name, h("td", null, share(queue)), h("td.num", null, percent(queue.due, 1)),
        h("td.num", null, cores(queue.cpus)), h("td.num", null, memory(queue.memory_mib)), h("td.num", null, count(queue.running)),
        h("td.num", null, count(queue.waiting)), h("td.num", null, money(queue.dollars_today)),
        h("td", null, queue.waits ? h("a", { href: `#/jobs/${queue.waits}` }, queue.waits) : "", queue.waits_since ? h("span.soft", null, ` for ${duration(Date.now() / 1000 - queue.waits_since)}`) : ""));
    })));
}

/** What it holds as a bar, and what it is due as a line over it. */
function share(queue) {
  const held = h("i");
  const due = h("u");
  held.style.width = `${Math.min(100, 100 * queue.share)}%`;
  due.style.left = `${Math.min(100, 100 * queue.due)}%`;
  return h("div.share", { title: `holds ${percent(queue.share, 1)}, is due ${percent(queue.due, 1)}, recent use ${percent(queue.used, 1)}` }, held, due);
}
