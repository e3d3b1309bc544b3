// The last hours: what ran on which VM, job by job in their colours, and where decisions were taken.

import { get } from "./api.js";
import { fill, h, say } from "./dom.js";
import { clock, colour, counted, duration, numberOf } from "./format.js";

const POLL = 20_000;
const LANE = 9;
const ROW_GAP = 5;
const TOP = 30;

export function show(main) {
  const hours = h("select", { "aria-label": "How far back", onchange: load }, [1, 3, 6, 12, 24].map((n) => h("option", { value: n, selected: n === 3 }, n === 1 ? "the last hour" : `the last ${n} hours`)));
  const note = h("span.soft");
  const canvas = h("canvas", { role: "img", tabindex: "0" });
  const picture = h("div.picture", null, canvas);
  const tip = h("div.tip", { hidden: true });
  const legend = h("div.legend");
  const decided = h("div.body");
  main.append(
    h("section.panel", null, h("div.head", null, h("h2", null, "Executors on VMs"), note, h("span.grow"), hours), picture, legend),
    h("section.panel", null, h("div.head", null, h("h2", null, "Decisions")), decided), tip);
  let told = null;
  let boxes = [];
  let waits = 0;
  let over = false;

  async function load() {
    clearTimeout(waits);
    try {
      told = await get(`/v1/timeline?hours=${hours.value}`);
      if (over) return;
      draw();
      fill(decided, ...decisions(told));
    } catch (error) {
      say(note, error.message);
    }
    if (!over) waits = setTimeout(load, POLL);
  }

  function draw() {
    if (!told) return;
    const drawn = paint(canvas, told, picture.clientWidth);
    boxes = drawn.boxes;
    say(note, told.tasks.length ? `${told.left_out ? "the newest " : ""}${counted(told.tasks.length, "task")} of ${counted(told.jobs.length, "job")}` : "nothing ran");
    const newest = [...told.jobs].sort((a, b) => numberOf(b.id) - numberOf(a.id)).slice(0, 14);
    fill(legend, newest.map((job) => {
      const dot = h("i.dot");
      dot.style.background = colour(job.id);
      return h("span", null, dot, h("a", { href: `#/jobs/${job.id}` }, job.name), h("span.faint", null, job.id));
    }));
    canvas.setAttribute("aria-label", `${counted(told.tasks.length, "task")} on ${counted(drawn.vms, "VM")} from ${clock(told.since)} to ${clock(told.until)}`);
  }

  function at(event) {
    const area = canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    return boxes.findLast((box) => x >= box.x - 1 && x <= box.x + box.w + 1 && y >= box.y && y <= box.y + box.h);
  }
  canvas.addEventListener("mousemove", (event) => {
    const box = at(event);
    tip.hidden = !box;
    canvas.style.cursor = box ? "pointer" : "";
    if (!box) return;
    say(tip, box.text);
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 300)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => { const box = at(event); if (box) location.hash = `#/jobs/${box.job}`; });
  const again = new ResizeObserver(draw);
  again.observe(picture);
  addEventListener("themed", draw);
  load();
  return () => { over = true; clearTimeout(waits); again.disconnect(); removeEventListener("themed", draw); };
}

/** Paint it; boxes that can be pointed at, and how many VMs there are. */
function paint(canvas, answer, width) {
  const first = Math.min(...answer.tasks.map((task) => task.launched_at), answer.until - 300);
  const told = { ...answer, since: Math.max(answer.since, first - (answer.until - first) / 40) };
  const style = getComputedStyle(document.documentElement);
  const [text, line, soft, warn] = ["--text", "--line", "--soft", "--bad"].map((name) => style.getPropertyValue(name).trim());
  const jobs = new Map(told.jobs.map((job) => [job.id, job]));
  const rows = lanes(told.tasks);
  const left = width < 600 ? 92 : 150;
  const height = TOP + rows.reduce((sum, row) => sum + row.lanes * LANE + ROW_GAP, 0) + 8;
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  const x = (when) => left + ((Math.max(when, told.since) - told.since) / (told.until - told.since)) * (width - left - 16);
  const boxes = [];
  pen.textBaseline = "middle";
  for (const when of ticks(told.since, told.until, Math.max(2, Math.floor((width - left) / 110)))) {
    pen.fillStyle = line;
    pen.fillRect(Math.round(x(when)), TOP - 6, 1, height - TOP);
    pen.fillStyle = soft;
    pen.textAlign = "center";
    pen.fillText(clock(when, false).slice(-5), x(when), 12);
  }
  let y = TOP;
  for (const row of rows) {
    const h = row.lanes * LANE;
    pen.fillStyle = text;
    pen.textAlign = "left";
    pen.fillText(row.vm, 14, y + h / 2, left - 22);
    for (const { task, lane } of row.tasks) {
      const from = x(task.launched_at);
      const w = Math.max(1.5, x(task.ended_at ?? told.until) - from);
      pen.fillStyle = colour(task.job_id);
      pen.globalAlpha = task.running_at === null ? 0.45 : 1;
      pen.fillRect(from, y + lane * LANE, w, LANE - 1);
      pen.globalAlpha = 1;
      if (task.state === "failed" || task.state === "lost") {
        pen.fillStyle = warn;
        pen.fillRect(from + w - 2, y + lane * LANE, 2, LANE - 1);
      }
      const name = jobs.get(task.job_id)?.name ?? task.job_id;
      boxes.push({ x: from, y: y + lane * LANE, w, h: LANE - 1, job: task.job_id,
        text: `${name} (${task.job_id})\n${task.task_id} on ${row.vm}: ${task.state}\n${clock(task.launched_at)}, ${duration((task.ended_at ?? told.until) - task.launched_at)}` });
    }
    y += h + ROW_GAP;
  }
  for (const one of told.decisions) {
    if (!one.faults.length) continue;
    const at = x(one.at);
    pen.fillStyle = warn;
    pen.beginPath();
    pen.moveTo(at - 4, TOP - 8);
    pen.lineTo(at + 4, TOP - 8);
    pen.lineTo(at, TOP - 2);
    pen.fill();
    boxes.push({ x: at - 4, y: TOP - 10, w: 8, h: 10, job: one.job_id, text: `${clock(one.at)} the fallback (${one.policy}) decided\n${one.faults.join("\n")}` });
  }
  return { boxes, vms: rows.length };
}

/** VMs with their tasks, each in a lane that is free then. */
function lanes(tasks) {
  const by = new Map();
  for (const task of [...tasks].sort((a, b) => a.launched_at - b.launched_at)) {
    if (!by.has(task.vm)) by.set(task.vm, { vm: task.vm, tasks: [], free: [] });
    const row = by.get(task.vm);
    let lane = row.free.findIndex((until) => until <= task.launched_at);
    if (lane < 0) lane = row.free.length;
    row.free[lane] = task.ended_at ?? Infinity;
    row.tasks.push({ task, lane });
  }
  const names = new Intl.Collator("en", { numeric: true });
  return [...by.values()].map((row) => ({ ...row, lanes: row.free.length })).sort((a, b) => names.compare(a.vm, b.vm));
}

function ticks(since, until, most) {
  const step = [10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600].find((each) => (until - since) / each <= most) ?? 43200;
  const found = [];
  for (let at = Math.ceil(since / step) * step; at < until; at += step) found.push(at);
  return found;
}

function decisions(told) {
  if (!told.decisions.length) return [h("p.empty", null, "None in this time.")];
  const rows = told.decisions.slice(0, 60).map((one) => h("tr", null,
    h("td.mono.tight", null, clock(one.at)), h("td.tight", null, h("a", { href: `#/jobs/${one.job_id}` }, one.job_id)),
    h("td", null, one.faults.length ? h("span.chip.failed", null, `fallback ${one.policy}`) : one.policy),
    h("td", null, one.reason, one.faults.map((fault) => h("div.warn", null, fault)))));
  return [h("div.scroll", null, h("table", null, h("thead", null, h("tr", null, ["At", "Job", "Policy", "Decision"].map((name) => h("th", null, name)))), h("tbody", null, rows)))];
}
