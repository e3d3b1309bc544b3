// Why executors are where they are: each decision about a job, with the VMs that were looked at and their scores.

import { h } from "./dom.js";
import { clock, counted, duration, memory, money, ofCores, ranges } from "./format.js";

/** So many decisions are shown, and so many choices of each. */
const MOST = 8;
const CHOICES = 4;

/** The panel for an answer of /explain. */
export function decisions(found) {
  const all = [...found.explanations].reverse();
  const waits = found.state === "queued" && (!all.length || all.some((one) => one.decision === "wait"));
  const head = h("div.head", null, h("h2", null, waits ? "Why it waits" : "Why there"), all.length ? h("span.chip", null, String(all.length)) : null);
  if (!all.length) return [head, h("p.empty", null, waits ? "No policy has considered it yet; see the reason above." : "No policy decided about it.")];
  return [head, h("div.body.decisions", null, all.slice(0, MOST).map((one, i) => decision(one, i === 0, found.id)), all.length > MOST ? h("p.soft", null, `${all.length - MOST} earlier ones: stoker job ${found.id}`) : null)];
}

function decision(one, open, id) {
  const found = groups(one.choices);
  const others = found.slice(CHOICES).flatMap(([, executors]) => executors).length;
  return h("details", { open },
    h("summary", null, h("span.mono.faint", null, clock(one.at)), h("b", null, one.policy), h("span", null, one.reason)),
    one.faults.map((fault) => h("p.warn", null, fault)),
    kinds(one.kinds, one.choices.length),
    found.slice(0, CHOICES).map(([choices, names]) => choice(choices, names)),
    others ? h("p.soft", null, `${others} other executors: stoker job ${id} --why`) : null);
}

/** The placement's cost and time beside those of the kinds of VM on which the job could be. */
function kinds(found, executors) {
  if (!found.length) return null;
  return h("div.choice", null,
    h("p", null, h("b", null, `All ${counted(executors, "executor")} on`)),
    h("div.scroll", null, h("table", null,
      h("thead", null, h("tr", null, h("th", null, "VMs"), ["Ready in", "Takes", "Adds to the bill"].map((name) => h("th.num", null, name)))),
      h("tbody", null, found.map((each) => h("tr", { class: each.placed ? "chosen" : each.room < executors ? "unfit" : "" },
        h("td.tight", null, each.placed ? "● " : "", `${each.vms} × ${each.types.join(", ")}`, h("span.faint", null, kindNote(each, executors))),
        h("td.num", null, each.ready_in ? duration(each.ready_in) : "now"),
        h("td.num", null, duration(each.seconds)),
        h("td.num", null, money(each.dollars))))))));
}

function kindNote(each, executors) {
  const part = (number, note) => number && (number === each.vms ? note : `${number} ${note}`);
  const notes = [part(each.spot, "spot"), part(each.opens, "to be opened"), each.room < executors && `room for ${each.room}`];
  return ` ${notes.filter(Boolean).join(", ")}`;
}

/** Executors that went to one VM for one reason are told of once, with what the first of them found. */
function groups(choices) {
  const by = new Map();
  for (const each of choices) {
    const key = JSON.stringify([each.executor === null, each.vm, each.why, each.cpus, each.memory_mib]);
    if (!by.has(key)) by.set(key, [each, []]);
    by.get(key)[1].push(each.executor);
  }
  return [...by.values()];
}

/** VMs that are alike share a row: the chosen one first, then those with room, the best score first, those without one last. */
function alike(candidates) {
  const by = new Map();
  for (const each of candidates) {
    const lacks = each.lacks.map((text) => text.replace(`${each.vm} `, "").replace(/^has /, ""));
    const key = JSON.stringify([each.chosen, each.type, each.free_cpus, each.free_memory_mib, each.score, each.details, lacks]);
    if (!by.has(key)) by.set(key, { ...each, lacks, vms: [] });
    by.get(key).vms.push(each.vm);
  }
  return [...by.values()].sort((a, b) => b.chosen - a.chosen || (a.lacks.length > 0) - (b.lacks.length > 0) || (a.score === null) - (b.score === null) || b.score - a.score);
}

/** At most three names; of more the first and the last. */
function named(vms) {
  return vms.length > 3 ? `${vms[0]}, …, ${vms.at(-1)} (${vms.length})` : vms.join(", ");
}

function choice(one, executors) {
  const who = executors[0] === null ? "The job" : executors.length > 1 ? `Executors ${ranges(executors)}` : `Executor ${executors[0]}`;
  const best = Math.max(...one.candidates.map((each) => each.score ?? -Infinity));
  const worst = Math.min(...one.candidates.map((each) => each.score ?? Infinity));
  const scored = one.candidates.some((each) => each.score !== null);
  return h("div.choice", null,
    h("p", null, h("b", null, who), one.vm ? ` → ${one.vm}` : " waits", one.why ? h("span.soft", null, `: ${one.why}${executors.length > 1 ? "; seen at the first of them" : ""}`) : null),
    one.candidates.length ? h("div.scroll", null, h("table", null,
      h("thead", null, h("tr", null, ["VM", "Free", scored ? "Score" : null, "Lacks"].filter(Boolean).map((name) => h(name === "Free" || name === "Score" ? "th.num" : "th", null, name)))),
      h("tbody", null, alike(one.candidates).map((each) => h("tr", { class: each.chosen ? "chosen" : each.lacks.length ? "unfit" : "" },
        h("td.tight", null, each.chosen ? "● " : "", named(each.vms), h("span.faint", null, ` ${each.type}`)),
        h("td.num", null, `${ofCores(each.free_cpus)} · ${memory(each.free_memory_mib)}`),
        scored ? h("td.num", { title: more(each) }, each.score === null ? "–" : score(each.score, worst, best)) : null,
        h("td.soft", null, each.lacks.join(", "))))))) : null,
    one.candidates_left_out ? h("p.faint", null, `and ${one.candidates_left_out} other VMs`) : null);
}

function score(value, worst, best) {
  const bar = h("i.score");
  bar.style.width = `${best > worst ? 4 + (44 * (value - worst)) / (best - worst) : 48}px`;
  return [bar, value.toPrecision(4)];
}

function more(each) {
  return Object.entries(each.details).map(([name, value]) => `${name} ${value === null ? "–" : value.toPrecision(4)}`).join("\n");
}
