// All jobs as one list of any length, filtered: only the rows that are seen are there.

import { ask as confirm, h, mark, say, toast } from "./dom.js";
import { ask } from "./api.js";
import { COST, ENDED, clock, colour, count, duration, memory, money, ofCores } from "./format.js";
import { expected } from "./parts.js";
import { follow, state } from "./state.js";

const narrow = matchMedia("(max-width: 720px)");
const BEFORE = 6;
/** So many jobs more are shown at once on a phone. */
const PART = 50;

export function show(main) {
  const filter = Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
  let found = [];
  let row = 0;
  const number = h("span.chip");
  const find = h("input", { id: "find", type: "search", placeholder: "Find by name, id, reason  ( / )", "aria-label": "Find", value: filter.find ?? "" });
  const selects = Object.fromEntries(["state", "owner", "queue", "type"].map((name) => [name, h("select", { "aria-label": name, onchange: choose })]));
  const list = h("div.list", { role: "table", "aria-label": "Jobs", tabindex: "0" });
  const space = h("div.space", { role: "rowgroup" });
  const others = h("button.plain", { hidden: true, onclick: () => { most += PART; draw(); } });
  list.append(space, others);
  main.append(h("section.panel.jobs", null,
    h("div.head", null, h("h2", null, "Jobs"), number, h("span.grow"), find, ...Object.values(selects)),
    h("div.names", { "aria-hidden": "true" }, ["", "Job", "State", "Why", "Owner · queue", "Size", "Time", "Cost"].map((name, i) => h(i > 4 ? "span.num" : "span", name === "Cost" ? { title: COST } : null, name))),
    list));
  let most = PART;
  const pool = [];
  let options = "";

  function choose() {
    for (const [name, select] of Object.entries(selects)) filter[name] = select.value;
    filter.find = find.value;
    const kept = Object.entries(filter).filter(([, value]) => value);
    history.replaceState(null, "", `#/jobs${kept.length ? "?" + new URLSearchParams(kept) : ""}`);
    list.scrollTop = 0;
    row = 0;
    collect();
  }

  function offer() {
    const values = { state: ["queued", "running", "finished", "failed", "killed"], owner: new Set(), queue: new Set(), type: new Set() };
    for (const job of state.jobs.values()) for (const name of ["owner", "queue", "type"]) values[name].add(job[name]);
    const lists = Object.entries(values).map(([name, each]) => [name, [...each].filter(Boolean).sort().slice(0, 500)]);
    const told = JSON.stringify(lists);
    if (told === options) return;
    options = told;
    for (const [name, each] of lists) {
      const chosen = filter[name] ?? "";
      const all = chosen && !each.includes(chosen) ? [...each, chosen] : each;
      selects[name].replaceChildren(h("option", { value: "" }, `any ${name}`), ...all.map((value) => h("option", { value }, value)));
      selects[name].value = chosen;
      selects[name].hidden = name !== "state" && all.length < 2 && !chosen;
    }
  }

  function collect() {
    const words = (filter.find ?? "").toLowerCase();
    const kept = [];
    for (const job of state.jobs.values()) {
      if (filter.state && (filter.state === "running" ? job.state === "queued" || ENDED.has(job.state) : job.state !== filter.state)) continue;
      if ((filter.owner && job.owner !== filter.owner) || (filter.queue && job.queue !== filter.queue) || (filter.type && job.type !== filter.type)) continue;
      if (words && !`${job.name} ${job.id} ${job.reason} ${job.owner}`.toLowerCase().includes(words)) continue;
      kept.push(job);
    }
    found = sorted(kept);
    say(number, count(found.length));
    row = Math.min(row, Math.max(0, found.length - 1));
    draw();
  }

  function draw() {
    const height = narrow.matches ? 66 : 38;
    const total = `${Math.max(found.length, 1) * height}px`;
    if (space.style.height !== total) space.style.height = total;
    list.setAttribute("aria-rowcount", found.length);
    // On a phone rows are as high as their names and reasons need, and there are as many as were asked for.
    const first = narrow.matches ? 0 : Math.max(0, Math.floor(list.scrollTop / height) - BEFORE);
    const last = Math.min(found.length, narrow.matches ? most : Math.ceil((list.scrollTop + list.clientHeight) / height) + BEFORE);
    others.hidden = !narrow.matches || last >= found.length;
    say(others, `and ${count(found.length - last)} more`);
    while (pool.length < last - first) {
      const made = newRow();
      pool.push(made);
      space.append(made.element);
    }
    pool.forEach((each, i) => {
      const job = found[first + i];
      each.element.hidden = first + i >= last;
      if (!each.element.hidden) each.update(job, first + i, height, first + i === row);
    });
    mark(list, "none", !found.length);
  }

  function move(event) {
    const page = Math.max(1, Math.floor(list.clientHeight / (narrow.matches ? 66 : 38)) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -found.length, End: found.length };
    if (event.key === "Enter" && found[row] && event.target === list) location.hash = `#/jobs/${found[row].id}`;
    if (!(event.key in steps) || !found.length) return;
    event.preventDefault();
    row = Math.max(0, Math.min(found.length - 1, row + steps[event.key]));
    const height = narrow.matches ? 66 : 38;
    if (row * height < list.scrollTop) list.scrollTop = row * height;
    else if ((row + 1) * height > list.scrollTop + list.clientHeight) list.scrollTop = (row + 1) * height - list.clientHeight;
    draw();
  }

  let waits = 0;
  find.addEventListener("input", () => { clearTimeout(waits); waits = setTimeout(choose, 120); });
  list.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  list.addEventListener("keydown", move);
  addEventListener("resize", draw);
  offer();
  collect();
  const end = follow((what) => { if (what.jobs || what.all) { offer(); collect(); } });
  return () => { end(); removeEventListener("resize", draw); };
}

/** What runs, then the queue in its order, then what is over, the newest first. */
function sorted(jobs) {
  for (const job of jobs) {
    if (ENDED.has(job.state)) job.order = 2e12 - (job.finished_at ?? 0);
    else if (job.state === "queued") job.order = 1e12 + (state.place.get(job.id) ?? 1e6);
    else job.order = 1e11 - (job.started_at ?? job.submitted_at);
  }
  return jobs.sort((a, b) => a.order - b.order || a.number - b.number);
}

function newRow() {
  const mark_ = h("i.dot");
  const place = h("span.place");
  const name = h("b");
  const id = h("span.faint.id");
  const chip = h("span.chip");
  const when = h("span.soon");
  const reason = h("span");
  const why = h("span.why", null, when, reason);
  const queue = h("span.queue.soft");
  const size = h("span.num.soft.size");
  const since = h("span.num.soft.since");
  const cost = h("span.num.cost");
  const element = h("a.job", { role: "row", tabindex: "-1" }, h("span.first", null, mark_, place), h("span.what", null, name, id), h("span.state", null, chip), why, queue, size, since, cost);
  let shown = null;
  let placed = 0;
  return {
    element,
    update(job, index, height, current) {
      const top = `translateY(${index * height}px)`;
      if (element.style.transform !== top) element.style.transform = top;
      mark(element, "current", current);
      const at = job.state === "queued" ? state.place.get(job.id) ?? 0 : 0;
      const now = Date.now() / 1000;
      const ends = job.finished_at ?? now;
      say(since, job.state === "queued" ? duration(now - job.submitted_at) : duration(ends - (job.started_at ?? job.submitted_at)));
      say(cost, job.cost ? money(job.cost) : "–");
      const soon = job.state === "queued" ? expected(job.id) : null;
      say(when, soon ? `${soon.soon} · ` : "");
      if (soon) when.title = soon.whole;
      if (shown === job && placed === at) return;
      shown = job;
      placed = at;
      element.setAttribute("href", `#/jobs/${job.id}`);
      mark_.style.background = job.state === "queued" ? "transparent" : colour(job.id);
      say(place, at ? String(at) : "");
      say(name, job.name);
      say(id, job.id);
      chip.className = `chip ${job.state}`;
      say(chip, job.state);
      say(reason, job.reason);
      why.title = job.reason;
      say(queue, [job.owner, job.queue === "default" ? "" : job.queue].filter(Boolean).join(" · ") || "default");
      say(size, `${job.executors} × ${ofCores(job.cpus)}`);
      size.title = `${job.executors} ${job.executors === 1 ? "executor" : "executors"} of ${ofCores(job.cpus)} and ${memory(job.memory_mib)}`;
      since.title = timesOf(job);
    },
  };
}

/** When it came, started and ended. */
function timesOf(job) {
  const times = [["submitted", job.submitted_at], ["started", job.started_at], ["ended", job.finished_at]];
  return times.filter(([, at]) => at).map(([what, at]) => `${what} ${clock(at)}`).join(", ");
}

/** Ask, then end a job. */
export async function kill(job) {
  const meant = await confirm(`End ${job.id}?`, `${job.name} is ${job.state}. It ends now, and does not restart.`, "End the job");
  if (!meant) return;
  try {
    await ask("POST", `/v1/jobs/${encodeURIComponent(job.id)}/kill`);
    toast(`${job.id} is being ended`);
  } catch (error) {
    toast(error.message, "bad");
  }
}
