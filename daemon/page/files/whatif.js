// What if: policies, VMs and order as they might be, played forward from now, or with the jobs of a time that is
// over; the daemon is only asked.

import { ask, get } from "./api.js";
import { fill, h } from "./dom.js";
import { clock, colour, count, duration, money, percent } from "./format.js";
import { banner, tell } from "./parts.js";
import { follow, state } from "./state.js";

const OFFERED = ["ff", "greedy", "aep", "reinforce", "lookahead"];
const ORDERS = ["", "fifo", "priority", "fair", "deadline", "shortest"];
const SECONDS = 4;
const SHOWN = 40;
const MOST = 10;
/** Which jobs are played: those that wait, or those that came since a time (seconds since the epoch). */
const PLAYED = {
  "": ["that wait now", () => null],
  hour: ["of the last hour", (now) => now - 3600],
  today: ["of today (UTC)", (now) => now - (now % 86_400)],
  day: ["of the last 24 hours", (now) => now - 86_400],
};

export function show(main) {
  const policies = h("div.choices");
  const sliders = h("div.sliders");
  const order = h("select", { "aria-label": "Order", onchange: later },
    ORDERS.map((each) => h("option", { value: each }, each || "as now")));
  const when = h("select", { "aria-label": "Which jobs", onchange: later },
    Object.entries(PLAYED).map(([value, [name]]) => h("option", { value }, name)));
  const wanted = new URLSearchParams(location.hash.split("?")[1] ?? "").get("since") ?? "";
  if (wanted in PLAYED) when.value = wanted;
  const status = h("span.soft", { role: "status" });
  const answer = h("div.answer");
  const machine = banner();
  main.append(h("section.panel", null,
    h("div.head", null, h("h2", null, "What if"), h("span.soft", null, "A simulation of the present jobs: it changes nothing.")),
    h("div.body.asking", null, h("div", null, h("h3", null, "Policies"), policies),
      h("div", null, h("h3", null, "VMs more or fewer"), sliders), 
      h("div.chosen-of", null, state.me?.sees === "own" ? null : h("label", null, h("h3", null, "Jobs"), when), h("label", null, h("h3", null, "Order"), order)), status)), machine, answer);
  let over = false;
  let pause = 0;
  let asked = 0;

  async function begin() {
    try {
      const [cluster, acting] = await Promise.all([get("/v1/cluster"), get("/v1/policy")]);
      if (over) return;
      const names = [...new Set([acting.name, ...OFFERED])];
      fill(policies, names.map((name) => h("label.choice-of", null,
        h("input", { type: "checkbox", value: name, checked: [acting.name, "ff", "greedy"].includes(name), onchange: later }),
        name, name === acting.name ? h("span.chip", null, "decides now") : null)));
      fill(sliders, [...new Set(cluster.vms.map((vm) => vm.type))].slice(0, 8).map((type) => slider(type, later)));
      play();
    } catch (error) {
      if (!over) fill(status, error.message);
    }
  }

  function later() {
    clearTimeout(pause);
    pause = setTimeout(play, 300);
  }

  async function play() {
    const number = ++asked;
    const chosen = [...policies.querySelectorAll("input:checked")].map((box) => ({ name: box.value }));
    if (!chosen.length) return void fill(status, "Choose a policy.");
    fill(status, `Simulating, for about ${SECONDS} s …`);
    const patience = setTimeout(() => number === asked && fill(status, "Still simulating: the first request may have to compile code, for up to a minute …"), 3000 * SECONDS);
    const other = otherwise(sliders, order.value);
    const since = PLAYED[when.value][1](Date.now() / 1000);
    try {
      const cases = Object.keys(other).length ? [{}, other] : [{}];
      const found = await ask("POST", "/v1/what-if", { policies: chosen, cases, seconds: SECONDS, draws: 20, since });
      if (over || number !== asked) return;
      fill(status, "");
      fill(answer, told(found));
    } catch (error) {
      if (over || number !== asked) return;
      fill(status, h("span.bad", null, error.message));
      if ([429, 503].includes(error.status)) later();
    } finally {
      clearTimeout(patience);
    }
  }

  begin();
  const end = follow(() => tell(machine));
  return () => { over = true; end(); clearTimeout(pause); };
}

function slider(type, changed) {
  const value = h("output", null, "as now");
  const range = h("input", { type: "range", min: -MOST, max: MOST, value: 0, "data-type": type, "aria-label": `${type}, more or fewer`, onchange: changed,
    oninput: () => fill(value, range.value === "0" ? "as now" : `${range.value > 0 ? "+" : "−"}${Math.abs(range.value)}`) });
  return h("label.slider", null, h("span", null, type), range, value);
}

/** The case that sliders and order say; empty where all is as now. */
function otherwise(sliders, order) {
  const add = {};
  const remove = {};
  for (const range of sliders.querySelectorAll("input")) {
    const number = Number(range.value);
    if (number) (number > 0 ? add : remove)[range.dataset.type] = Math.abs(number);
  }
  const found = {};
  if (Object.keys(add).length) found.add = add;
  if (Object.keys(remove).length) found.remove = remove;
  if (order) found.order = [order];
  return found;
}

function told(found) {
  const played = found.policies.filter((each) => each.draws);
  const jobs = found.recorded ? ["job was submitted since then", "jobs were submitted since then"] : ["job waits", "jobs wait"];
  const waits = `${count(found.waiting)} ${jobs[found.waiting === 1 ? 0 : 1]}${found.others ? `, and ${count(found.others)} more that are not played` : ""}`;
  const means = found.recorded ? "Durations are the true ones." : "Means of draws; in brackets the range of 9 of 10.";
  const columns = ["Case", "Policy", played.every((each) => each.fixed) ? "Cost of jobs" : "Billed", "Jobs end after", found.recorded ? "All over at" : "All over after", "Late", "Never", "Draws"];
  const most = Math.max(...played.map((each) => each.dollars?.high ?? 0), 1e-9);
  return [
    h("section.panel", null, h("div.head", null, h("h2", null, "Outcomes"), h("span.soft", null, `${waits}. ${means}`)),
      h("p.reason.verdict", null, found.waiting || found.recorded ? [fixed(played), verdict(played)] : "No job waits, so all policies give the same result: choose past jobs."),
      h("div.scroll", null, h("table.outcomes", null,
        h("thead", null, h("tr", null, columns.map((name, i) => h(i > 1 ? "th.num" : "th", null, name)))),
        h("tbody", null, found.policies.map((each) => row(each, most, found)))))),
    found.waiting ? h("section.panel", null, h("div.head", null, h("h2", null, "Predicted runs of the jobs"), h("span.soft", null, "light: until it starts; coloured: until it ends")),
      h("div.body.starts", null, played.map((each) => starts(each, played, found)))) : null,
    h("section.panel", null, h("div.head", null, h("h2", null, "Assumptions")), h("div.body", null, h("ul", null, found.assumes.map((said) => h("li", null, said))))),
  ];
}

/** Said where no policy changes the bill. */
function fixed(played) {
  const cases = [...new Set(played.filter((each) => each.fixed).map((each) => each.case))];
  if (!cases.length) return "";
  const where = played.every((each) => each.fixed) ? "No VM opens or closes here" : `No VM opens or closes in ${cases.join("; ")}`;
  return `${where}, so no policy changes the bill. Policies change the cost of jobs: the price of VMs while jobs hold them (eq. 4). `;
}

/** Which is cheapest, and by how much beside the first that was asked for, which decides now. */
function verdict(played) {
  const told = played.filter((each) => each.dollars && !each.never.length);
  if (told.length < 2) return "";
  const [first] = told;
  const best = told.reduce((one, other) => (other.dollars.mean < one.dollars.mean ? other : one));
  const called = (each) => (told.some((other) => other.case !== each.case) ? `${each.name}, ${each.case}` : each.name);
  const less = first.dollars.mean - best.dollars.mean;
  if (less < 0.00005) return `None of these is cheaper than ${called(first)}, ${money(first.dollars.mean)}: choose others to simulate them as well.`;
  const sure = best.dollars.high < first.dollars.low || best.draws === 1 ? "" : " That may be chance: their intervals overlap.";
  return `The cheapest is ${called(best)}: ${money(best.dollars.mean)}, ${money(less)} (${percent(less, first.dollars.mean)}) less than ${called(first)}.${sure}`;
}

function row(each, most, { at, recorded }) {
  const over = recorded ? (seconds) => clock(at + seconds) : duration;
  if (each.failure) return h("tr", null, h("td", null, each.case), h("td", null, each.name), h("td.bad", { colspan: 6 }, each.failure));
  const bar = h("i");
  bar.style.width = `${(100 * (each.dollars?.mean ?? 0)) / most}%`;
  const failed = each.fallback_share ? h("div.bad", null, `failed at ${percent(Math.max(each.fallback_share, 0.01), 1)} of its decisions`) : null;
  return h("tr", null, h("td.case", null, each.case), h("td.case", null, each.name, failed), h("td.num", null, between(each.dollars, money), h("div.bill", null, bar)),
    h("td.num", null, between(each.completion, duration)), h("td.num", null, between(each.seconds, over)),
    h(each.late ? "td.num.bad" : "td.num", null, count(each.late)), h("td.num", null, count(each.never.length)), h("td.num", null, count(each.draws)));
}

function between(found, as) {
  if (!found) return "–";
  if (found.low === found.high) return as(found.mean);
  return [as(found.mean), h("span.faint", null, ` (${as(found.low)} – ${as(found.high)})`)];
}

/** A small picture: a line for each job, from now to its end; of a time that is over, from when the first began. */
function starts(each, all, { at, recorded }) {
  const jobs = all.flatMap((other) => other.jobs.slice(0, SHOWN));
  const first = recorded && jobs.length ? Math.min(...jobs.map((job) => job.start.mean)) : 0;
  const last = Math.max(...jobs.map((job) => job.end.mean), first + 1);
  const more = each.jobs.length - SHOWN;
  return h("div", null, h("h3", null, `${each.case}, ${each.name}`), each.jobs.slice(0, SHOWN).map((job) => {
    const bar = h("i");
    bar.style.left = `${(100 * (job.start.mean - first)) / (last - first)}%`;
    bar.style.width = `${(100 * (job.end.mean - job.start.mean)) / (last - first)}%`;
    bar.style.background = colour(job.id);
    return h("a.start", { href: `#/jobs/${job.id}`, title: `${job.id} ${job.name}: starts ${recorded ? `at ${clock(at + job.start.mean)}` : `in ${duration(job.start.mean)} (${duration(job.start.low)} – ${duration(job.start.high)})`}${job.late ? ", late" : ""}` },
      h(job.late ? "span.bad" : "span", null, job.id), h("div.track", null, bar));
  }), more > 0 ? h("p.soft", null, `and ${count(more)} more`) : null);
}
