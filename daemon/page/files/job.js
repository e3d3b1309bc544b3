// One job: what became of it, where its executors are and why there, what it printed.

import { get } from "./api.js";
import { copy, fill, h } from "./dom.js";
import { executors } from "./executors.js";
import { COST, ENDED, clock, count, counted, duration, memory, money, ofCores } from "./format.js";
import { kill } from "./jobs.js";
import { logs } from "./logs.js";
import { chip, dot, facts } from "./parts.js";
import { follow, state } from "./state.js";
import { decisions } from "./why.js";

const POLL = 3000;
/** The last of what happened that is shown. */
const EVENTS = 200;

export function show(main, id) {
  const head = h("section.panel");
  const placed = executors();
  const why = h("section.panel");
  const happened = h("section.panel");
  const printed = logs(id);
  main.append(head, placed.element, why, happened, printed.element);
  let over = false;
  let waits = 0;
  let told = "";

  async function load() {
    clearTimeout(waits);
    try {
      const job = await get(`/v1/jobs/${encodeURIComponent(id)}`);
      if (over) return;
      fill(head, ...summary(job));
      placed.update(job);
      printed.update(job);
      const mark = `${job.state} ${job.reason} ${job.tasks.length}`;
      if (mark !== told) {
        told = mark;
        const found = await get(`/v1/jobs/${encodeURIComponent(id)}/explain`);
        if (!over) fill(why, ...decisions(found));
        const { events } = await get(`/v1/events?job=${encodeURIComponent(id)}&limit=${EVENTS}`);
        if (!over) fill(happened, ...history(events));
      }
      if (!ENDED.has(job.state)) waits = setTimeout(load, document.hidden ? 4 * POLL : POLL);
    } catch (error) {
      if (!over) {
        fill(head, h("p.empty", null, error.message));
        if (error.status === 0 || error.status >= 500) waits = setTimeout(load, POLL);
      }
    }
  }
  let before = null;
  const end = follow(() => {
    const job = state.jobs.get(id);
    if (job && job !== before) {
      if (before && (before.state !== job.state || before.reason !== job.reason)) load();
      before = job;
    }
  });
  load();
  return () => { over = true; end(); clearTimeout(waits); printed.end(); };
}

function summary(job) {
  const now = Date.now() / 1000;
  const place = state.place.get(job.id);
  const may = state.me && (["operate", "admin"].includes(state.me.role) || (state.me.role === "submit" && job.owner === state.me.name));
  const spec = job.spec ?? {};
  return [
    h("div.head", null, dot(job.id), h("h1", null, job.name), chip(job.state),
      h("button.plain.mono", { onclick: () => copy(job.id), title: "Copy the id" }, job.id), h("span.grow"),
      job.ui ? h("a", { href: job.ui, target: "_blank", rel: "noopener noreferrer" }, "Spark UI") : null,
      may && !ENDED.has(job.state) ? h("button.danger", { onclick: () => kill(job) }, "End") : null),
    h("div.body", null,
      h("p.reason", null, job.reason),
      job.next_step ? h("p.soft", null, job.next_step) : null,
      facts([
        place && job.state === "queued" ? ["Place in the queue", String(place)] : null,
        ...expected(job),
        ["Submitted", clock(job.submitted_at)],
        job.started_at ? ["Started", `${clock(job.started_at)} · waited ${duration(job.started_at - job.submitted_at)}`] : ["Waits for", duration((job.finished_at ?? now) - job.submitted_at)],
        job.finished_at ? ["Ended", `${clock(job.finished_at)}${job.duration === null ? "" : ` · ran ${duration(job.duration)}`}`] : job.started_at ? ["Runs for", duration(now - job.started_at)] : null,
        job.deadline ? ["Deadline", clock(job.deadline), ENDED.has(job.state) ? kept(job) : left(job.deadline - now)] : null,
        ["Cost", h("span", { title: COST }, money(job.cost))],
        ...came(job),
        ["Executors", `${executorsAsked(job)} × ${ofCores(job.cpus)}, ${memory(job.memory_mib)}`],
        ENDED.has(job.state) && job.started_at ? ["Memory used", memoryUsed(job)] : null,
        ["Type", job.type || "none"], job.owner ? ["Owner", job.owner] : null, ["Queue", job.queue],
        job.priority ? ["Priority", String(job.priority)] : null,
        job.losses ? ["Executors lost", count(job.losses)] : null,
        job.retried ? ["Started again", counted(job.retried, "time")] : null,
        job.exit_code === null ? null : ["Exit code", String(job.exit_code)],
        spec.app ? ["Application", h("span.mono", null, [spec.app, ...(spec.args ?? [])].join(" "))] : null,
        ENDED.has(job.state) ? ["History", h("span.mono", null, `stoker history ${job.id}`)] : null,
      ])),
  ];
}

function history(events) {
  const head = h("div.head", null, h("h2", null, "Events"), h("span.chip", null, count(events.length)));
  if (!events.length) return [head, h("p.empty", null, "It is no longer known.")];
  return [head, h("div.scroll", null, h("table", null, h("tbody", null, events.map((event) => h("tr", null,
    h("td.faint.tight", null, clock(event.at)), h("td.tight", null, event.kind), h("td", null, event.message))))))];
}

/** How far off a deadline is, seconds; or that it has passed. */
function left(seconds) {
  return seconds > 0 ? ` · in ${duration(seconds)}` : h("span.bad", null, ` · passed ${duration(-seconds)} ago`);
}

/** Whether a job that is over kept its deadline: one that failed or was killed before it did neither. */
function kept(job) {
  return job.finished_at > job.deadline ? " · missed" : job.state === "finished" ? " · met" : "";
}

/** The peak of an executor's memory, and the share of the memory paid for; where its event log reports it. */
function memoryUsed(job) {
  const use = job.memory_use;
  if (!use) return "not reported";
  const python = use.python_mib === null ? "Python not reported" : `Python ${memory(use.python_mib)}`;
  const share = use.reported_mib_seconds ? ` · ${Math.round(100 * use.used_mib_seconds / use.reported_mib_seconds)} % of what is paid for` : "";
  return `${memory(use.peak_mib)} of ${memory(job.memory_mib)} at most (heap ${memory(use.heap_mib)}, JVM beside it ${memory(use.off_heap_mib)}, ${python})${share}`;
}

function executorsAsked(job) {
  return job.min_executors === job.executors ? String(job.executors) : `${job.min_executors}–${job.executors}`;
}

/** What is believed of its start and cost, where the daemon says so. */
function expected(job) {
  const found = job.estimate;
  if (!found) return job.state === "queued" ? [["Will start", "no estimate", job.no_estimate ? h("div.soft", null, job.no_estimate) : null]] : [];
  const soon = found.start.mean - Date.now() / 1000;
  const between = (interval, told) => `${told(interval.low)} – ${told(interval.high)}`;
  return [
    ["Will start", between(found.start, clock), soon > 0 ? ` · in about ${duration(soon)}` : "",
      ...(job.estimate_notes ?? []).map((note) => h("div.soft", null, note))],
    ["Will end", between(found.end, clock)],
    ["Will cost", between(found.cost, money)],
  ];
}

/** What was first told of it while it waited, beside what came. */
function came(job) {
  const told = job.expected?.first;
  if (!told || job.placed_at === null) return [];
  const line = (name, of, truth, shown, before, after) => {
    const text = `${shown(told[of].low)} – ${shown(told[of].high)}`;
    const where = told.came[of];
    return [name, where ? `${text} · came ${shown(truth)}, ${{ before, after }[where] ?? where}` : text];
  };
  return [
    line("First estimate of the start", "start", job.placed_at, clock, "earlier", "later"),
    line("First estimate of the end", "end", job.finished_at, clock, "earlier", "later"),
    line("First estimate of the cost", "cost", job.cost, money, "less", "more"),
  ];
}
