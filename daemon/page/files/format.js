// Numbers, times and colours as people read them.

/** $0.0123, $12.34, $0.000562: as the commands write it (`conf/util/dollars.py`), so that both say the same. */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars < 0) return `−${money(-dollars)}`;
  if (dollars > 0 && dollars < 0.000001) return "less than $0.000001";
  const digits = dollars >= 1 ? 2 : dollars >= 0.001 || dollars === 0 ? 4 : 6;
  return `$${dollars.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** A price: as many digits as it has, two at least. */
export function rate(dollars) {
  return `$${dollars.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 4 })}`;
}

export function count(number) {
  return number.toLocaleString("en-US");
}

/** 1 executor, 3 executors. */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function cores(number) {
  return Number.isInteger(number) ? String(number) : number.toFixed(1);
}

/** 0–2, 5 for 0, 1, 2 and 5. */
export function ranges(numbers) {
  const found = [];
  for (const number of [...numbers].sort((one, other) => one - other)) {
    const last = found.at(-1);
    if (last && number <= last[1] + 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}–${to}`)).join(", ");
}

/** 1 core, 1.5 cores. */
export function ofCores(number) {
  return `${cores(number)} ${number === 1 ? "core" : "cores"}`;
}

export function memory(mib) {
  return mib >= 1024 ? `${(mib / 1024).toFixed(mib % 1024 ? 1 : 0)} GiB` : `${mib} MiB`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "–";
}

/** 75 as 1m 15s. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

/** 75 as 75s, 340 as 6m: for what is not known to the second. */
export function roughly(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s}s`;
  if (s < 5400) return `${Math.round(s / 60)}m`;
  if (s < 129600) return `${Math.round(s / 3600)}h`;
  return `${Math.round(s / 86400)}d`;
}

export function clock(at, seconds = true) {
  if (at === null || at === undefined) return "–";
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

/** A time of a day of UTC, to the minute. */
export function utc(at) {
  return `${new Date(at * 1000).toISOString().slice(11, 16)} UTC`;
}

/** What `cost` is, wherever the cost of a job or an executor is shown. */
export const COST = "Cost: the price of VMs while the job holds executors on them, shared with other jobs there (Islam 2022, eq. 4). Its part of the bill is on Costs.";

export const ENDED = new Set(["finished", "failed", "killed"]);

const PALETTE = ["#5b8ff9", "#5ad8a6", "#f6bd16", "#e8684a", "#9270ca", "#6dc8ec", "#ff9d4d", "#269a99", "#ff99c3",
  "#7c9a3e", "#a97c50", "#8892a6"];

/** The colour of a job, the same wherever it is shown. */
export function colour(jobId) {
  return PALETTE[(numberOf(jobId) * 7) % PALETTE.length];
}

/** 7 of job-7. */
export function numberOf(jobId) {
  return Number(jobId.slice(jobId.lastIndexOf("-") + 1)) || 0;
}
