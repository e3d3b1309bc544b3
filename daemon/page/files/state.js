// What the page knows: jobs and VMs by id, as the stream tells. Views read it, and hear when it changes.

import { numberOf } from "./format.js";

export const state = {
  jobs: new Map(), vms: new Map(), pools: [], line: [], place: new Map(),
  estimates: {}, policy: null, budget: null, provider: "", machine: "", me: null, loading: true, announced: 0,
};

let columns = { jobs: [], vms: [] };
const listeners = new Set();
let pending = null;

/** Be told of changes: {jobs, vms, all}, at most once a frame. Returns what ends it. */
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed(what) {
  if (pending) {
    for (const key of Object.keys(what)) pending[key] = pending[key] || what[key];
    return;
  }
  pending = { ...what };
  const tell = () => {
    const told = pending;
    pending = null;
    for (const listener of [...listeners]) listener(told);
  };
  if (document.hidden) setTimeout(tell, 1000);
  else requestAnimationFrame(tell);
}

function record(names, row) {
  const found = {};
  for (let i = 0; i < names.length; i++) found[names[i]] = row[i];
  return found;
}

/** Begin anew with a snapshot's first part. */
export function begin(told) {
  columns = told.columns;
  state.jobs.clear();
  state.vms.clear();
  state.loading = true;
  state.announced = told.number_of_jobs;
  apply(told);
  changed({ all: true, jobs: true, vms: true });
}

/** The snapshot is whole. */
export function whole() {
  state.loading = false;
  changed({ jobs: true });
}

/** Take a part of a snapshot, or a difference. */
export function apply(told) {
  for (const row of told.jobs ?? []) {
    const job = record(columns.jobs, row);
    job.number = numberOf(job.id);
    state.jobs.set(job.id, job);
  }
  for (const id of told.gone ?? []) state.jobs.delete(id);
  for (const row of told.vms ?? []) {
    const vm = record(columns.vms, row);
    state.vms.set(vm.id, vm);
  }
  for (const id of told.gone_vms ?? []) state.vms.delete(id);
  for (const [id, cost] of Object.entries(told.costs ?? {})) {
    const job = state.jobs.get(id);
    if (job) job.cost = cost;
  }
  for (const name of ["pools", "policy", "budget", "provider", "machine", "estimates"]) if (name in told) state[name] = told[name];
  if (told.line) {
    state.line = told.line;
    state.place = new Map();
    told.line.forEach((id, index) => id && state.place.set(id, index + 1));
  }
  changed({
    jobs: Boolean(told.jobs || told.gone || told.line || told.costs || told.estimates), vms: Boolean(told.vms || told.gone_vms),
    parts: "policy" in told || "pools" in told || "budget" in told || "provider" in told || "machine" in told,
  });
}
