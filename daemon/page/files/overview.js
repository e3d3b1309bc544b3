// The first view: how much runs and costs now, the VMs, the head of the queue, who decides.

import { cluster } from "./cluster.js";
import { fill, h, say } from "./dom.js";
import { ENDED, clock, cores, count, counted, duration, money, ofCores, percent, rate } from "./format.js";
import { banner, chip, dot, expected, tell } from "./parts.js";
import { follow, state } from "./state.js";

const MOST = 12;
/** So many jobs in a row that wait for the same are one row. */
const ALIKE = 3;

export function show(main) {
  const tiles = TILES.map(([name, , , href]) => ({ name, href, value: h("div.value"), note: h("div.note") }));
  const vms = cluster();
  const queue = h("div.rows");
  const waiting = h("span.chip");
  const running = h("div.rows");
  const on = h("span.chip");
  const policy = h("div.body");
  const machine = banner();
  main.append(
    h("section.tiles", { "aria-label": "Now" }, tiles.map((tile) => h(tile.href ? "a.panel.tile" : "div.panel.tile", tile.href ? { href: tile.href } : null, h("h3", null, tile.name), tile.value, tile.note))),
    machine,
    vms.element,
    h("div.columns", null,
      h("section.panel", null, h("div.head", null, h("h2", null, "Queue"), waiting, h("span.grow"), h("a", { href: "#/jobs?state=queued" }, "All")), queue),
      h("section.panel", null, h("div.head", null, h("h2", null, "Running"), on, h("span.grow"), h("a", { href: "#/jobs?state=running" }, "All")), running)),
    h("section.panel", null, h("div.head", null, h("h2", null, "Acting policy")), policy));

  const update = (what) => {
    const sums = summed();
    TILES.forEach(([, value, note], i) => { say(tiles[i].value, value(sums)); say(tiles[i].note, note(sums)); });
    if (what.vms || what.all || what.parts) vms.update();
    if (what.jobs || what.all) {
      say(waiting, count(sums.queued));
      say(on, count(sums.on));
      fill(queue, head(), sums.queued ? null : h("p.empty", null, "Nobody waits."));
      fill(running, sums.newest.map(started), sums.on ? null : h("p.empty", null, state.loading ? "Loading …" : "Nothing runs."));
    }
    if (what.parts || what.all) {
      fill(policy, ...decides());
      tell(machine);
    }
  };
  update({ all: true });
  return follow(update);
}

const TILES = [
  ["VMs", (s) => count(s.vms), (s) => [s.booting && `${s.booting} booting`, s.draining && `${s.draining} draining`, s.away && `${s.away} out of reach`, s.idle && `${s.idle} idle`].filter(Boolean).join(" · ") || "all in use"],
  ["Cores in use", (s) => percent(s.used, s.cpus), (s) => `${cores(Math.round(s.used))} of ${cores(Math.round(s.cpus))}`],
  ["Price now", (s) => `${rate(s.price)}/h`, (s) => `${rate(s.held)}/h of VMs in use`, "#/bill"],
  ["Running", (s) => count(s.on), (s) => counted(s.executors, "executor"), "#/jobs?state=running"],
  ["Waiting", (s) => count(s.queued), (s) => (s.since ? `the longest for ${duration(Date.now() / 1000 - s.since)}` : "no job waits"), "#/jobs?state=queued"],
  ["Ended", (s) => count(s.over), (s) => (s.failed ? `${s.failed} failed, of the last ${s.over}` : "none of the last failed")],
];

function summed() {
  const s = { vms: state.vms.size, booting: 0, draining: 0, away: 0, idle: 0, used: 0, cpus: 0, price: 0, held: 0, executors: 0,
    on: 0, queued: 0, over: 0, failed: 0, since: 0, newest: [] };
  for (const vm of state.vms.values()) {
    if (vm.state === "booting" || vm.state === "opening") s.booting++;
    else if (vm.state === "unreachable") s.away++;
    else if (vm.state !== "up") s.draining++;
    else if (!vm.executors.length && !vm.used_cpus) s.idle++;
    s.used += vm.used_cpus;
    s.cpus += vm.cpus;
    s.price += vm.price_per_hour;
    if (vm.used_cpus > 0) s.held += vm.price_per_hour;
    s.executors += vm.executors.length;
  }
  for (const job of state.jobs.values()) {
    if (job.state === "queued") {
      s.queued++;
      if (!s.since || job.submitted_at < s.since) s.since = job.submitted_at;
    } else if (ENDED.has(job.state)) {
      s.over++;
      if (job.state === "failed") s.failed++;
    } else {
      s.on++;
      s.newest.push(job);
    }
  }
  s.newest = s.newest.sort((a, b) => (b.started_at ?? Infinity) - (a.started_at ?? Infinity) || b.submitted_at - a.submitted_at).slice(0, MOST);
  return s;
}

/** The head of the queue, a row each; of those in a row that wait for the same, one row for all. */
function head() {
  const rows = [];
  const line = state.line.filter(Boolean).map((id) => state.jobs.get(id)).filter(Boolean);
  for (let i = 0; i < line.length && rows.length < MOST;) {
    let end = i + 1;
    while (end < line.length && line[end].reason === line[i].reason) end++;
    if (i > 0 && end - i >= ALIKE) rows.push(alike(line.slice(i, end), line[i - 1], line.length === end ? more(line.length) : 0));
    else rows.push(...line.slice(i, end).map(queued));
    i = end;
  }
  return rows.slice(0, MOST);
}

/** How many wait beyond those of which the order is told. */
function more(told) {
  let waiting = 0;
  for (const job of state.jobs.values()) if (job.state === "queued") waiting++;
  return Math.max(0, waiting - told);
}

/** One row for jobs that wait for the same, behind another. */
function alike(jobs, before, beyond) {
  const [first, last] = [jobs[0], jobs.at(-1)];
  const places = [first, last].map((job) => state.place.get(job.id) ?? "");
  const soon = expected(first.id);
  const until = state.estimates[last.id]?.[1];
  return h("a.row", { href: "#/jobs?state=queued" },
    h("span.place", null, `${places[0]}–`),
    h("span.what.many", null, h("b", null, `${count(jobs.length + beyond)} jobs behind ${before.id}`)),
    h("span.why.whole", { title: jobs.slice(0, 20).map((job) => `${job.name} ${job.id}`).join("\n") }, first.reason),
    h("span.num.soft", null, soon ? h("div.soon", { title: soon.whole }, soon.soon) : null, until && !beyond ? `the last by ${clock(until, false)}` : null));
}

function queued(job) {
  const soon = expected(job.id);
  return h("a.row", { href: `#/jobs/${job.id}` },
    h("span.place", null, String(state.place.get(job.id) ?? "")),
    h("span.what", null, h("b", null, job.name), h("span.faint.id", null, job.id)),
    h("span.why.whole", { title: job.reason }, job.reason),
    h("span.num.soft", { title: `since ${clock(job.submitted_at)}` },
      soon ? h("div.soon", { title: soon.whole }, soon.soon) : null,
      job.deadline ? due(job) : null,
      `waits ${duration(Date.now() / 1000 - job.submitted_at)}`));
}

/** By when a job that waits is due; that this is over, or comes before it can start. */
function due(job) {
  const [, latest] = state.estimates[job.id] ?? [0, 0];
  const late = Math.max(Date.now() / 1000, latest) > job.deadline;
  return h(late ? "div.bad" : "div.warn", null, `${late ? "too late for" : "due by"} ${clock(job.deadline, false)}`);
}

function started(job) {
  return h("a.row", { href: `#/jobs/${job.id}` },
    dot(job.id),
    h("span.what", null, h("b", null, job.name), h("span.faint.id", null, job.id)),
    h("span.why", null, chip(job.state), " ", h("span.soft", null, `${job.executors} × ${ofCores(job.cpus)}`)),
    h("span.num.soft", null, money(job.cost)));
}

function decides() {
  const p = state.policy;
  if (!p) return [h("span.soft", null, "…")];
  const facts = [["policy", p.name], ["jobs placed", count(p.placed)], ["decisions to wait", count(p.waited)]];
  if (p.guarded) facts.push(["by the guard", count(p.guarded)]);
  const list = h("dl.facts", null, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
  const lines = [list];
  if (p.faults) lines.push(h("p.warn", null, `${p.faults === 1 ? "1 decision was" : `${count(p.faults)} decisions were`} taken by the fallback${p.fallback ? ` (${p.fallback})` : ""} instead: ${p.last_fault}`));
  if (p.busy) lines.push(h("p.warn", null, `It has been at one decision for ${duration(p.busy)}: the fallback decides.`));
  if (p.shadow) lines.push(h("p.soft", null, `${p.shadow.name} is the shadow policy${p.shadow.compared ? `: it would have decided otherwise in ${count(p.shadow.different)} of ${counted(p.shadow.compared, "decision")}` : ""}. `, h("a", { href: "#/what-if?since=today" }, "The cost of today under other policies")));
  if (state.provider) lines.push(h("p.bad", null, `VM provider: ${state.provider}`));
  return lines;
}
