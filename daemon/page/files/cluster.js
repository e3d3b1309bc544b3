// The VMs, by pool and type: cards where there are few, tiles where there are hundreds. Only what changed is drawn.

import { fill, h, mark, say } from "./dom.js";
import { clock, colour, cores, counted, duration, memory, ofCores, percent, rate } from "./format.js";
import { chip, dot } from "./parts.js";
import { state } from "./state.js";

/** So many VMs are shown as cards. */
const CARDS = 48;

/** The panel; `update` draws what has changed since. */
export function cluster() {
  const groups = new Map();
  const body = h("div.groups");
  const note = h("span.soft");
  const element = h("section.panel", null, h("div.head", null, h("h2", null, "Cluster"), note), body);
  let dense = null;

  function update() {
    const wanted = state.vms.size > CARDS;
    if (wanted !== dense) {
      dense = wanted;
      groups.clear();
      body.replaceChildren();
    }
    const by = new Map();
    for (const pool of state.pools) by.set(key(pool.name, pool.type), []);
    for (const vm of state.vms.values()) {
      const name = key(vm.pool, vm.type);
      if (!by.has(name)) by.set(name, []);
      by.get(name).push(vm);
    }
    for (const [name, group] of groups) if (!by.has(name)) { group.element.remove(); groups.delete(name); }
    for (const name of [...by.keys()].sort()) {
      if (!groups.has(name)) {
        const made = newGroup(dense);
        groups.set(name, made);
        body.append(made.element);
      }
      groups.get(name).update(by.get(name), state.pools.find((pool) => key(pool.name, pool.type) === name));
    }
    say(note, by.size ? "" : state.loading ? "loading" : "no VMs yet");
  }
  return { element, update };
}

const key = (pool, type) => `${type}\n${pool}`;

function newGroup(dense) {
  const title = h("b");
  const summary = h("span.soft");
  const warning = h("span.warn");
  const list = h(dense ? "div.cells" : "div.cards");
  const element = h("div.group", null, h("div.title", null, title, summary, warning), list);
  const shown = new Map();

  function update(vms, pool) {
    const first = vms[0] ?? pool;
    const used = vms.reduce((sum, vm) => sum + vm.used_cpus, 0);
    const all = vms.reduce((sum, vm) => sum + vm.cpus, 0);
    const howMany = pool ? `${vms.length} of ${counted(pool.max, "VM")}` : counted(vms.length, "VM");
    say(title, first.type || "any type");
    say(summary, `${howMany} · ${ofCores(first.cpus)} · ${rate(first.price_per_hour)}/h each` + (vms.length ? ` · ${percent(used, all)} in use` : ""));
    say(warning, pool?.note ?? "");
    const there = new Set();
    if (vms.some((vm) => !shown.has(vm.id))) vms.sort((a, b) => collate(a.name, b.name));
    vms.forEach((vm) => {
      there.add(vm.id);
      let tile = shown.get(vm.id);
      if (!tile) {
        tile = dense ? newCell(vm) : newCard(vm);
        shown.set(vm.id, tile);
        list.append(tile.element);
      }
      if (tile.vm !== vm) { tile.vm = vm; tile.update(vm); }
    });
    for (const [id, tile] of shown) if (!there.has(id)) { tile.element.remove(); shown.delete(id); }
  }
  return { element, update };
}

const { compare: collate } = new Intl.Collator("en", { numeric: true });

/** Each job's executors on a VM: [[job, number], ...]. */
function held(vm) {
  const by = new Map();
  for (const task of vm.executors) {
    const job = task.split(".")[0];
    by.set(job, (by.get(job) ?? 0) + 1);
  }
  return [...by];
}

/** A bar of what is held, by the colours of jobs, as a CSS gradient. */
function bar(vm) {
  const share = vm.cpus ? Math.min(1, vm.used_cpus / vm.cpus) : 0;
  const parts = held(vm);
  const tasks = vm.executors.length || 1;
  let at = 0;
  const stops = parts.map(([job, number]) => {
    const from = at;
    at += (number / tasks) * share * 100;
    return `${colour(job)} ${from.toFixed(1)}% ${at.toFixed(1)}%`;
  });
  if (!parts.length && share) { stops.push(`var(--off) 0 ${share * 100}%`); at = share * 100; }
  stops.push(`var(--track) ${at.toFixed(1)}% 100%`);
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

function described(vm) {
  const jobs = held(vm).map(([job, number]) => `${job} × ${number}`).join(", ") || "idle";
  return `${vm.name}: ${vm.state}, ${cores(vm.used_cpus)} of ${ofCores(vm.cpus)}; ${jobs}`;
}

function newCell(vm) {
  const element = h("button.cell", { onclick: () => details(vm.id) });
  return {
    element,
    update(now) {
      element.style.background = bar(now);
      element.title = described(now);
      element.setAttribute("aria-label", element.title);
      element.dataset.state = now.state;
      mark(element, "noted", Boolean(now.note));
    },
  };
}

function newCard(vm) {
  const name = h("b");
  const status = h("span.chip");
  const track = h("div.bar");
  const line = h("span");
  const price = h("span");
  const note = h("div.note.warn");
  const element = h("button.card", { onclick: () => details(vm.id) }, h("div.top", null, name, status), track, h("div.soft.line", null, line, price), note);
  return {
    element,
    update(now) {
      say(name, now.name);
      const idle = now.state === "up" && !now.executors.length && !now.used_cpus;
      status.hidden = now.state === "up" && !idle;
      say(status, idle ? "idle" : now.state);
      status.className = `chip ${idle ? "idle" : now.state}`;
      track.style.background = bar(now);
      say(line, `${cores(now.used_cpus)}/${cores(now.cpus)} cores · ${Math.round(now.used_memory_mib / 1024)}/${memory(now.memory_mib)}`);
      say(price, `${rate(now.price_per_hour)}/h`);
      say(note, now.note || (now.state === "booting" && now.ready_at ? `due at ${clock(now.ready_at)}` : ""));
      element.setAttribute("aria-label", described(now));
    },
  };
}

function details(id) {
  const vm = state.vms.get(id);
  if (!vm) return;
  const close = () => { dialog.close(); dialog.remove(); };
  const boots = vm.state === "booting" && vm.ready_at ? ` · due in ${duration(vm.ready_at - Date.now() / 1000)}` : "";
  const dialog = h("dialog", { "aria-label": vm.name, oncancel: close, onclick: (event) => event.target === dialog && close() },
    h("div.top", null, h("h2", null, vm.name), chip(vm.state)),
    h("p.soft", null, `${vm.type || "no type"}${vm.pool ? ` of the pool ${vm.pool}` : ""} · ${rate(vm.price_per_hour)}/h${boots}`),
    h("p", null, `${cores(vm.used_cpus)} of ${ofCores(vm.cpus)}, ${memory(vm.used_memory_mib)} of ${memory(vm.memory_mib)} in use`),
    vm.note ? h("p.warn", null, vm.note) : null,
    h("ul.plain", null, held(vm).map(([job, number]) => h("li", null, dot(job), " ",
      h("a", { href: `#/jobs/${job}`, onclick: close }, state.jobs.get(job)?.name ?? job), h("span.soft", null, ` ${job} · ${number === 1 ? "1 task" : `${number} tasks`}`)))),
    h("div.buttons", null, h("button", { onclick: close, autofocus: true }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}
