// What ended jobs cost and could have cost: the report, which the daemon makes from their event logs.

import { fill, h } from "./dom.js";

const PERIODS = ["day", "week", "month"];

export function show(main) {
  const buttons = PERIODS.map((period) => h("button", { onclick: () => open(period) }, `Last ${period}`));
  const told = h("p", { role: "status" });
  let over = false;
  main.append(h("section.panel", null,
    h("div.head", null, h("h2", null, "Audit of ended jobs"), buttons),
    h("div.body", null,
      h("p.soft", null, "The cost of the jobs that ended, by cause, from their event logs; and what the same jobs could have cost with other settings, VMs and policies."),
      told)));

  async function open(period) {
    for (const button of buttons) button.disabled = true;
    fill(told, "The daemon reads the event logs and plays the jobs again: that takes a minute or more.");
    const address = `/v1/audit?period=${period}`;
    let why = "the daemon does not answer";
    try {
      const answer = await fetch(address, { credentials: "same-origin" });
      if (over) return;
      // The daemon keeps the report for some minutes, so it is there at once now.
      if (answer.ok) location.assign(address);
      why = answer.ok ? "" : (await answer.json()).detail;
    } catch {
      // Said below.
    }
    fill(told, why);
    for (const button of buttons) button.disabled = false;
  }
  return () => { over = true; };
}
