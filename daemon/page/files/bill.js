// What today was billed and why, beside eq. 4 and a fixed cluster; for what; where shadow policies decide otherwise.
// Three names, the same in all tables: billed (from opened to closed), used (the part that jobs used), cost (eq. 4).

import { get, may } from "./api.js";
import { fill, h } from "./dom.js";
import { COST, count, counted, duration, money, percent, rate, utc } from "./format.js";
import { state } from "./state.js";

const KINDS = { used: "used by jobs", idle: "idle", booting: "booting", draining: "draining", rounding: "whole units" };
const POLL = 15_000;
const BY = { job: "job", group: "group", owner: "owner", queue: "queue", type: "VM type", vm: "VM", pool: "pool", policy: "policy", day: "day" };

export function show(main) {
  const today = h("section.panel");
  const of = h("select", { "aria-label": "Days of the bill", onchange: load }, h("option", { value: "today" }, "today"), h("option", { value: "" }, "all days"));
  const by = h("select", { "aria-label": "Sum costs by", onchange: load }, Object.entries(BY).map(([value, name]) => h("option", { value }, name)));
  const lines = h("div.scroll");
  const shadow = h("section.panel");
  main.append(today, h("section.panel", null, h("div.head", null, h("h2", null, "Costs"), of, h("span.soft", null, "by"), by), lines), shadow);
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

const PERIODS = { hour: "an hour now", day: "today (UTC)", month: "in this month (UTC)" };

function ofToday(day, budget) {
  const most = Math.max(day.paid.total, day.held, day.elastic ? day.fixed : 0, 1e-9);
  const bar = (name, title, parts, total, why) => h("div.bar", { title: why }, h("div", null, name, h("div.faint", null, title)),
    h("div.track", null, parts.map(([kind, dollars]) => {
      const part = h(`i.${kind}`, { title: `${KINDS[kind] ?? kind} ${money(dollars)}` });
      part.style.width = `${(100 * dollars) / most}%`;
      return part;
    })), h("b.num", null, money(total)));
  const kinds = Object.keys(KINDS).filter((kind) => day.paid[kind] > 0);
  const saved = day.elastic && day.fixed > 0 && day.paid.total > 0 ? 1 - day.paid.total / day.fixed : 0;
  const hours = duration(day.until - day.since);
  const since = utc(day.since);
  return [
    h("div.head", null, h("h2", null, "Today"), h("span.soft", null, `${day.day}, since ${since}`)),
    h("div.body.bars", null,
      h("p.reason", null, h("span.big", null, money(day.paid.total)), " billed",
        saved > 0.005 ? h("span.good", null, `  ${Math.round(100 * saved)} % less than all VMs on since ${since}, whether or not the daemon ran`) : null,
        budget?.per_day ? h("span.soft", null, `  ${percent(budget.spent, budget.per_day)} of the budget of ${money(budget.per_day)}`, budget.spent > budget.per_day && budget.hold ? h("b.bad", null, ": no VM is opened until tomorrow") : null) : null),
      (budget?.limits ?? []).filter((limit) => limit.pool || limit.per !== "day").map((limit) => h("p", null,
        `${limit.pool ? `Pool ${limit.pool}` : "All VMs"}: ${money(limit.spent)} of ${money(limit.dollars)} ${PERIODS[limit.per]}`,
        limit.over ? h("b.bad", null, ": spent") : null)),
      h("p", null, whatFor(day.paid), day.elastic ? "" : ` No VM opens or closes here, so no policy changes this bill: ${rate(day.fixed_per_hour)}/h.`),
      bar("Billed", "VMs from opened to closed", kinds.map((kind) => [kind, day.paid[kind]]), day.paid.total, "Price of each VM, from its opening to its closing"),
      bar("Cost of jobs", "VMs only while jobs hold them", [["held", day.held]], day.held, `The sum of the jobs' costs. ${COST}`),
      day.elastic ? bar("Fixed cluster", `all VMs, ${rate(day.fixed_per_hour)}/h for ${hours}`, [["fixed", day.fixed]], day.fixed, "Price of all VMs that the pools allow, had they been on all that time, even while no daemon ran") : null,
      h("div.legend", null, kinds.map((kind) => h("span", null, h(`i.dot.${kind}`), KINDS[kind], h("b", null, money(day.paid[kind])), h("span.faint", null, percent(day.paid[kind], day.paid.total)))))),
  ];
}

const NOBODY = { job: "(no job: idle, booting or closing VMs)", owner: "(nobody)", group: "(no group)", queue: "(no queue)", pool: "(fixed VMs)", vm: "(earlier days)", policy: "(no policy)", type: "(no type)" };

function table(bill) {
  if (!bill.lines.length) return h("p.empty", null, "There are no costs yet.");
  if (bill.by === "policy") return ofPolicies(bill);
  const kinds = Object.keys(KINDS).filter((kind) => bill.total[kind]);
  const ofJobs = bill.by === "job";
  const cost = (line) => (ofJobs ? h("td.num.soft", { title: COST }, state.jobs.has(line?.key) ? money(state.jobs.get(line.key).cost) : "") : null);
  const row = (name, line) => h("tr", null, h("td", null, name), h("td.num", null, h("b", null, money(line.total))), kinds.map((kind) => h("td.num.soft", null, line[kind] ? money(line[kind]) : "")), cost(line));
  const job = (id) => h("a", { href: `#/jobs/${id}` }, state.jobs.has(id) ? [state.jobs.get(id).name, " "] : null, h("span.faint", null, id));
  const named = (line) => (bill.by === "job" && line.key ? job(line.key) : line.key || NOBODY[bill.by] || "–");
  return [h("table", null,
    h("thead", null, h("tr", null, h("th", null, BY[bill.by]), h("th.num", null, "Billed"), kinds.map((kind) => h("th.num", null, KINDS[kind])), ofJobs ? h("th.num", { title: COST }, "Cost of the job") : null)),
    h("tbody", null, bill.lines.map((line) => row(named(line), line)), bill.rest ? row("(others)", bill.rest) : null, row(h("b", null, "all"), { ...bill.total, key: null }))),
  ofJobs ? h("p.soft.body", null, "A job is billed its part of each VM; the unused rest is idle. Its cost, as all lists of jobs show it, is the whole price of its VMs while it held them, shared with the other jobs there.") : null];
}

/** Which jobs ran in whose hours is chance, and what stood idle then: that ranks no policy. */
function ofPolicies(bill) {
  const all = [...bill.lines.filter((one) => one.key || one.used), ...(bill.rest ? [bill.rest] : [])];
  const line = (name, dollars) => h("tr", null, h("td", null, name), h("td.num", null, h("b", null, money(dollars))));
  return [h("table", null,
    h("thead", null, h("tr", null, h("th", null, BY.policy), h("th.num", null, KINDS.used))),
    h("tbody", null, all.map((one) => line(one === bill.rest ? "(others)" : one.key || NOBODY.policy, one.used)),
      line("idle and the rest, under any policy", bill.total.total - bill.total.used), line(h("b", null, "all"), bill.total.total))),
  h("p.soft.body", null, "Cost that jobs used while each policy decided. It depends on the jobs of that time, so it ranks no policy: ",
    h("a", { href: "#/what-if?since=today" }, "What if"), " simulates the same jobs under each.")];
}

function comparison(found) {
  const head = h("div.head", null, h("h2", null, "Decisions that differ under another policy"));
  const totals = found?.totals ?? [];
  if (!totals.length) return [head, h("p.empty", null, h("a", { href: "#/what-if?since=today" }, "The cost of today's jobs under other policies"), " There is no shadow policy beside the acting one: ", h("code", null, "stoker policy shadow POLICY"), " sets one, without effect.")];
  return [head, h("div.body", null, totals.map((one) => h("p.reason", null, verdict(one))), h("a", { href: "#/what-if?since=today" }, "The cost of today's jobs under other policies")), h("div.scroll", null, h("table", null,
    h("thead", null, h("tr", null, ["Acting", "Shadow"].map((name) => h("th", null, name)), ["Decisions", "Different", "VMs taken, acting", "VMs taken, shadow", "Difference"].map((name) => h("th.num", null, name)))),
    h("tbody", null, totals.map((one) => {
      const apart = one.shadow_cost - one.acting_cost;
      return h("tr", null, h("td", null, one.acting), h("td", null, one.shadow), h("td.num", null, count(one.compared)), h("td.num", null, count(one.different)),
        h("td.num", null, money(one.acting_cost)), h("td.num", null, money(one.shadow_cost)),
        h("td.num", { class: apart < 0 ? "good" : apart > 0 ? "bad" : "" }, `${apart > 0 ? "+" : apart < 0 ? "−" : ""}${money(Math.abs(apart))}`));
    })))), h("p.soft.body", null, "VMs taken: the price of VMs that a decision takes into use, for as long as the job ran. Each decision is evaluated by itself, on the cluster under the acting policy: this is neither a bill nor the jobs' cost under the other policy. What if plays that.")];
}

/** What most of the money went to, in a clause. */
function whatFor(paid) {
  if (!paid.total) return "There are no costs yet.";
  const part = (dollars) => `${percent(dollars, paid.total)} (${money(dollars)})`;
  const rest = paid.total - paid.used - paid.idle;
  return `${part(paid.used)} for VMs in use by jobs, ${part(paid.idle)} for idle ones${rest > 0.005 * paid.total ? `, ${part(rest)} for VMs that came and went` : ""}.`;
}

/** How often the other would have decided otherwise: what that costs is for What if alone to say. */
function verdict(one) {
  return `${one.shadow} would have decided differently from ${one.acting} in ${count(one.different)} of ${counted(one.compared, "decision")}.`;
}
