// Where a job's executors are and were: few as they are, many by VM, to be opened.

import { fill, h } from "./dom.js";
import { clock, cores, count, duration, memory, money, ranges } from "./format.js";
import { chip } from "./parts.js";

/** So many are told one by one; of more, a VM is a line. */
const FEW = 16;
/** So many VMs are shown until all are asked for, and so many executors of one that is open: the last. */
const VMS = 60;
const MOST = 200;

const COLUMNS = ["Executor", "VM", "State", "Cores", "Memory", "Launched", "Time", "Cost"];

export function executors() {
  const element = h("section.panel");
  const open = new Set();
  let all = false;
  let job = null;

  /** The job as it is now. */
  function update(found) {
    job = found;
    draw();
  }

  function draw() {
    const scrolled = element.querySelector(".tall")?.scrollTop ?? 0;
    const mine = element.contains(document.activeElement);
    const at = mine ? document.activeElement.dataset.vm : undefined;
    fill(element, ...shown());
    const list = element.querySelector(".tall");
    if (list) list.scrollTop = scrolled;
    if (!mine) return;
    const next = [...element.querySelectorAll("button")].find((one) => one.dataset.vm === at) ?? list;
    next?.focus({ preventScroll: true });
  }

  function shown() {
    const tasks = job.tasks;
    const head = h("div.head", null, h("h2", null, "Executors"), h("span.chip", null, count(tasks.length)));
    if (!tasks.length) return [head, h("p.empty", null, "It has none yet.")];
    if (tasks.length <= FEW) return [head, table(tasks.map((task) => line(task)))];
    const vms = byVm(tasks);
    head.append(...states(tasks), h("span.soft", null, `on ${count(vms.length)} ${vms.length === 1 ? "VM" : "VMs"}`), h("span.grow"),
      vms.some(([, own]) => own.length > 1) ? h("button.plain", { onclick: turn, "data-vm": "" }, open.size ? "Fold all" : "Open all") : "");
    const rows = vms.slice(0, all ? vms.length : VMS).flatMap(([vm, own]) => own.length === 1 ? [line(own[0])] : folded(vm, own));
    if (!all && vms.length > VMS) {
      rows.push(h("tr", null, h("td", { colspan: COLUMNS.length },
        h("button.plain", { onclick: () => { all = true; draw(); } }, `and ${count(vms.length - VMS)} other VMs`))));
    }
    return [head, table(rows)];
  }

  function turn() {
    const vms = byVm(job.tasks).map(([vm]) => vm);
    if (open.size) open.clear();
    else vms.forEach((vm) => open.add(vm));
    draw();
  }

  function folded(vm, own) {
    const is = open.has(vm);
    const flip = () => { if (!open.delete(vm)) open.add(vm); draw(); };
    const numbers = ranges(own.map((one) => one.number).filter((one) => one !== null));
    const names = [own.some((one) => one.number === null) ? "driver" : "", numbers].filter(Boolean).join(", ");
    const now = Date.now() / 1000;
    const from = Math.min(...own.map((one) => one.launched_at));
    const until = Math.max(...own.map((one) => one.ended_at ?? now));
    const rows = [h("tr.vm", null,
      h("td", null, h("button.plain.fold", { onclick: flip, "aria-expanded": String(is), "data-vm": vm, title: names },
        h("span", { "aria-hidden": "true" }, is ? "▾ " : "▸ "), count(own.length), h("span.faint", null, ` ${names}`))),
      h("td.tight", null, vm, h("span.faint", null, ` ${own[0].vm_type}`)),
      h("td", null, states(own)),
      h("td.num", null, each(own, "cpus", cores)), h("td.num", null, each(own, "memory_mib", memory)),
      h("td.num", null, clock(from)), h("td.num", null, duration(until - from)),
      h("td.num", null, money(own.reduce((sum, one) => sum + one.cost, 0))))];
    if (!is) return rows;
    const left = own.length - MOST;
    if (left > 0) rows.push(h("tr.of", null, h("td.soft", { colspan: COLUMNS.length }, `${count(left)} earlier ones: stoker job ${job.id}`)));
    return [...rows, ...own.slice(-MOST).map((task) => line(task, "of"))];
  }

  return { element, update };
}

/** VMs with what is or was on them: first those where something is now, then by name. */
function byVm(tasks) {
  const by = new Map();
  for (const task of tasks) {
    if (!by.has(task.vm)) by.set(task.vm, []);
    by.get(task.vm).push(task);
  }
  const rank = ([, own]) => own.every((task) => task.ended_at !== null);
  return [...by].sort((one, other) => rank(one) - rank(other) || one[0].localeCompare(other[0], "en", { numeric: true }));
}

/** How many are in which state. */
function states(tasks) {
  const by = new Map();
  for (const task of tasks) by.set(task.state, (by.get(task.state) ?? 0) + 1);
  return [...by].map(([state, number]) => h("span.chip", { class: state }, `${count(number)} ${state}`));
}

/** What each of them has: the same, or from least to most. */
function each(tasks, name, told) {
  const least = Math.min(...tasks.map((task) => task[name]));
  const most = Math.max(...tasks.map((task) => task[name]));
  return least === most ? `${told(least)} each` : `${told(least)} – ${told(most)}`;
}

function table(rows) {
  return h("div.scroll.tall", { tabindex: "0", "aria-label": "Executors" }, h("table", null,
    h("thead", null, h("tr", null, COLUMNS.map((name, i) => h(i > 2 ? "th.num" : "th", null, name)))),
    h("tbody", null, rows)));
}

function line(task, kind = null) {
  const now = Date.now() / 1000;
  const bad = task.state === "failed" || task.state === "lost";
  return h("tr", { class: kind },
    h("td", null, task.number === null ? "driver" : String(task.number)),
    h("td.tight", null, task.vm, h("span.faint", null, ` ${task.vm_type}`)),
    h("td", { title: task.message }, chip(task.state), bad ? h("div.soft", null, task.message) : null),
    h("td.num", null, cores(task.cpus)), h("td.num", null, memory(task.memory_mib)),
    h("td.num", null, clock(task.launched_at)), h("td.num", null, duration((task.ended_at ?? now) - task.launched_at)),
    h("td.num", null, money(task.cost)));
}
