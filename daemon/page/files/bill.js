// What today cost and why, beside eq. 4 and a fixed cluster; who cost what; what shadow policies would have cost.

import { get, may } from "./api.js";
import { fill, h } from "./dom.js";
import { clock, count, duration, money, percent } from "./format.js";
import { state } from "./state.js";

const KINDS = { used: "used by jobs", idle: "idle", booting: "booting", draining: "draining", rounding: "whole units" };
const POLL = 15_000;
const BY = { job: "job", owner: "owner", queue: "queue", type: "VM type", vm: "VM", pool: "pool", policy: "policy", day: "day" };

export function show(main) {
  const today = h("section.panel");
  const of = h("select", { "aria-label": "Of which days", onchange: load }, h("option", { value: "today" }, "today"), h("option", { value: "" }, "all days"));
  const by = h("select", { "aria-label": "By what", onchange: load }, Object.entries(BY).map(([value, name]) => h("option", { value }, name)));
  const lines = h("div.scroll");
  const shadow = h("section.panel");
  main.append(today, h("section.panel", null, h("div.head", null, h("h2", null, "What for"), of, h("span.soft", null, "by"), by), lines), shadow);
  let waits = 0;
  let over = false;

  async function load() {
    clearTimeout(waits);
    try {
      const [day, compared] = await Promise.all([get("/v1/bill/today"), may("/v1/policy/comparison")]);
      const days = of.value ? `&since=${day.day}&until=${day.day}` : "";
      const bill = await get(`/v1/bill?by=${by.value}&limit=50${days}`); // after today's, or it would be of a moment before
      if (over) return;
      fill(today, ...ofToday(day, bill.budget));
      fill(lines, table(bill));
      fill(shadow, ...comparison(compared));
    } catch (error) {
      if (!over) fill(today, h("p.empty", null, error.message));
    }
    if (!over) waits = setTimeout(load, POLL);
  }
  load();
  return () => { over = true; clearTimeout(waits); };
}

function ofToday(day, budget) {
  const most = Math.max(day.paid.total, day.held, day.fixed, 1e-9);
  const bar = (name, title, parts, total, why) => h("div.bar", { title: why }, h("div", null, name, h("div.faint", null, title)),
    h("div.track", null, parts.map(([kind, dollars]) => {
      const part = h(`i.${kind}`, { title: `${KINDS[kind] ?? kind} ${money(dollars)}` });
      part.style.width = `${(100 * dollars) / most}%`;
      return part;
    })), h("b.num", null, money(total)));
  const kinds = Object.keys(KINDS).filter((kind) => day.paid[kind] > 0);
  const saved = day.fixed > 0 && day.paid.total > 0 ? 1 - day.paid.total / day.fixed : 0;
  const hours = duration(day.until - day.since);
  return [
    h("div.head", null, h("h2", null, "Today"), h("span.soft", null, `${day.day} (UTC), since ${clock(day.since, false)}`)),
    h("div.body.bars", null,
      h("p.reason", null, h("span.big", null, money(day.paid.total)),
        saved > 0.005 ? h("span.good", null, `  ${Math.round(100 * saved)} % less than all VMs on since ${clock(day.since, false)}, whether or not the daemon ran`) : null,
        budget ? h("span.soft", null, `  ${percent(budget.spent, budget.per_day)} of the budget of ${money(budget.per_day)}`, budget.spent > budget.per_day && budget.hold ? h("b.bad", null, ": no VM is opened until tomorrow") : null) : null),
      h("p", null, whatFor(day.paid)),
      bar("Paid", "from opened to closed", kinds.map((kind) => [kind, day.paid[kind]]), day.paid.total, "What VMs cost from when they were opened until they were closed"),
      bar("While held", "a VM costs only with executors on it", [["held", day.held]], day.held, "What VMs cost where they cost only while they hold an executor (Islam 2022, eq. 4)"),
      bar("Fixed cluster", `all VMs, ${money(day.fixed_per_hour)}/h for ${hours}`, [["fixed", day.fixed]], day.fixed, "What all VMs that could be there would have cost, had they been on for all of that time, while no daemon ran, too"),
      h("div.legend", null, kinds.map((kind) => h("span", null, h(`i.dot.${kind}`), KINDS[kind], h("b", null, money(day.paid[kind])), h("span.faint", null, percent(day.paid[kind], day.paid.total)))))),
  ];
}

const NOBODY = { job: "(no job: what stood idle, came or went)", owner: "(nobody)", queue: "(no queue)", pool: "(fixed VMs)", vm: "(earlier days)", policy: "(no policy)", type: "(no type)" };

function table(bill) {
  if (!bill.lines.length) return h("p.empty", null, "Nothing was paid for yet.");
  const kinds = Object.keys(KINDS).filter((kind) => bill.total[kind]);
  const row = (name, line) => h("tr", null, h("td", null, name), h("td.num", null, h("b", null, money(line.total))), kinds.map((kind) => h("td.num.soft", null, line[kind] ? money(line[kind]) : "")));
  const job = (id) => h("a", { href: `#/jobs/${id}` }, state.jobs.has(id) ? [state.jobs.get(id).name, " "] : null, h("span.faint", null, id));
  const named = (line) => (bill.by === "job" && line.key ? job(line.key) : line.key || NOBODY[bill.by] || "–");
  return h("table", null,
    h("thead", null, h("tr", null, h("th", null, BY[bill.by]), h("th.num", null, "Total"), kinds.map((kind) => h("th.num", null, KINDS[kind])))),
    h("tbody", null, bill.lines.map((line) => row(named(line), line)), bill.rest ? row("(others)", bill.rest) : null, row(h("b", null, "all"), bill.total)));
}

function comparison(found) {
  const head = h("div.head", null, h("h2", null, "What another policy would have chosen"));
  const totals = found?.totals ?? [];
  if (!totals.length) return [head, h("p.empty", null, h("a", { href: "#/what-if?since=today" }, "What would today's jobs have cost under others?"), " No policy looks on beside the one that decides: ", h("code", null, "stoker policy shadow NAME"), " lets one, without effect.")];
  return [head, h("div.body", null, totals.map((one) => h("p.reason", null, verdict(one))), h("a", { href: "#/what-if?since=today" }, "What would today's jobs have cost under others?")), h("div.scroll", null, h("table", null,
    h("thead", null, h("tr", null, ["Acting", "Shadow"].map((name) => h("th", null, name)), ["Decisions", "Different", "Acting cost", "Shadow cost", "Difference"].map((name) => h("th.num", null, name)))),
    h("tbody", null, totals.map((one) => {
      const apart = one.shadow_cost - one.acting_cost;
      return h("tr", null, h("td", null, one.acting), h("td", null, one.shadow), h("td.num", null, count(one.compared)), h("td.num", null, count(one.different)),
        h("td.num", null, money(one.acting_cost)), h("td.num", null, money(one.shadow_cost)),
        h("td.num", { class: apart < 0 ? "good" : apart > 0 ? "bad" : "" }, `${apart > 0 ? "+" : apart < 0 ? "−" : ""}${money(Math.abs(apart))}`));
    })))), h("p.soft.body", null, "Each decision by itself: the VMs that it takes into use, for as long as the job ran.")];
}

/** What most of the money went to, in a clause. */
function whatFor(paid) {
  if (!paid.total) return "Nothing was paid for yet.";
  const part = (dollars) => `${percent(dollars, paid.total)} (${money(dollars)})`;
  const rest = paid.total - paid.used - paid.idle;
  return `${part(paid.used)} for what jobs used of VMs, ${part(paid.idle)} for what stood idle${rest > 0.005 * paid.total ? `, ${part(rest)} for VMs that came and went` : ""}.`;
}

/** Which of two was cheaper, in a sentence. */
function verdict(one) {
  const apart = one.shadow_cost - one.acting_cost;
  const decisions = one.compared === 1 ? "1 decision" : `${count(one.compared)} decisions`;
  if (Math.abs(apart) < 0.00005) return `${one.shadow} would have cost as much as ${one.acting} did, over ${decisions}.`;
  const part = one.acting_cost > 0 ? ` (${percent(Math.abs(apart), one.acting_cost)})` : "";
  return `${one.shadow} would have cost ${money(Math.abs(apart))}${part} ${apart < 0 ? "less" : "more"} than ${one.acting} did, over ${decisions}.`;
}
