// The API's page, made of /openapi.json: what can be asked, what it takes and what it answers.

import { fill, h } from "./dom.js";

const main = document.getElementById("main");
const find = document.getElementById("find");
if ((localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches && "dark")) === "dark") document.documentElement.classList.add("dark");

const name = (schema) => schema.$ref.split("/").pop();

/** What stands between the parts of a schema that is made of several. */
const MADE_OF = { anyOf: " or ", oneOf: " or ", allOf: " and " };

/** A type in a few words, with links to schemas. */
function kind(schema) {
  if (schema.$ref) return h("a", { href: `#${name(schema)}` }, name(schema));
  const made = Object.keys(MADE_OF).find((key) => schema[key]);
  if (made) return schema[made].flatMap((each, index) => [index ? MADE_OF[made] : "", inside(each)].flat(Infinity));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (schema.type === "array") return ["list of ", inside(schema.items ?? {})];
  if (schema.type === "object" && schema.additionalProperties) {
    return ["map to ", inside(Object(schema.additionalProperties))];
  }
  return schema.type ?? "anything";
}

/** A type as part of another one: in brackets where it has parts of its own. */
function inside(schema) {
  const parts = schema.$ref ? [] : Object.keys(MADE_OF).flatMap((key) => schema[key] ?? []);
  return parts.length > 1 ? ["(", kind(schema), ")"].flat(Infinity) : kind(schema);
}

function row(title, schema, text, needed) {
  const usual = schema.default === undefined ? "" : ` Unless given: ${JSON.stringify(schema.default)}.`;
  return h("tr", null,
    h("td.mono", null, title, needed ? h("span.bad", { title: "required" }, " *") : null),
    h("td.mono", null, kind(schema)), h("td", null, `${text ?? ""}${usual}`));
}

const table = (...rows) => h("table", null, h("tbody", null, ...rows));

/** What stands in a body, or that it is no JSON. */
function body(content) {
  return Object.entries(content ?? {}).map(([type, { schema }]) =>
    h("div", null, h("span.faint", null, `${type}: `), h("span.mono", null, kind(schema ?? {}))));
}

function wants(operation, whole) {
  const ways = operation.security ?? whole.security ?? [];
  const said = ways.map((way) => Object.keys(way)[0] ?? "nothing");
  return said.length ? `It needs: ${said.join(" or ")}.` : "It needs no authentication.";
}

function shown(path, method, operation, whole) {
  const data = operation.requestBody ? " -H 'Content-Type: application/json' -d @body.json" : "";
  const token = (operation.security ?? whole.security ?? []).length ? ' -H "Authorization: Bearer $STOKER_TOKEN"' : "";
  const asked = `curl -X ${method.toUpperCase()}${token}${data} ${location.origin}${path}`;
  const parameters = (operation.parameters ?? []).map((each) =>
    row(each.name, each.schema ?? {}, `${each.description ?? ""} (${each.in})`, each.required));
  return h("details", { "data-words": `${method} ${path} ${operation.description ?? ""}`.toLowerCase() },
    h("summary", null, h(`b.${method}`, null, method.toUpperCase()), h("span.mono", null, path),
      h("span.soft", null, operation.description ?? "")),
    h("div.inside", null, h("div.soft", null, wants(operation, whole)),
      parameters.length ? [h("h3", null, "Parameters"), table(...parameters)] : null,
      operation.requestBody ? [h("h3", null, "Body"), body(operation.requestBody.content)] : null,
      h("h3", null, "Answers"), table(...Object.entries(operation.responses).map(([status, answer]) =>
        h("tr", null, h("td.mono", null, status), h("td", null, answer.description), h("td", null, body(answer.content))))),
      h("h3", null, "For example"), h("pre.mono", null, asked)));
}

function schema(title, found) {
  const needed = new Set(found.required ?? []);
  const fields = Object.entries(found.properties ?? {});
  return h("details", { id: title, "data-words": title.toLowerCase() },
    h("summary", null, h("span.mono", null, title), h("span.soft", null, found.description ?? "")),
    h("div.inside", null, fields.length
      ? table(...fields.map(([field, each]) => row(field, each, each.description, needed.has(field)))) : null,
    fields.length && !Object.keys(MADE_OF).some((key) => found[key]) ? null : h("span.mono", null, kind(found))));
}

function draw(whole) {
  const tags = new Map();
  for (const [path, operations] of Object.entries(whole.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags?.[0] ?? "operations";
      tags.set(tag, [...(tags.get(tag) ?? []), shown(path, method, operation, whole)]);
    }
  }
  fill(main, h("div.soft", null, `${whole.info.title} ${whole.info.version}: ${whole.info.summary}.`),
    ...[...tags].sort().map(([tag, all]) => h("section", null, h("h2.tag", null, tag), ...all)),
    h("section", null, h("h2.tag", null, "schemas"),
      ...Object.entries(whole.components.schemas).sort().map(([title, found]) => schema(title, found))));
  turn();
}

/** Open what the address names. */
function turn() {
  const there = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  if (there instanceof HTMLDetailsElement) { there.open = true; there.scrollIntoView(); }
}

/** Leave what has all words that are looked for. */
function sift() {
  const words = find.value.toLowerCase().split(/\s+/);
  for (const each of main.querySelectorAll("details")) {
    each.hidden = !words.every((word) => each.dataset.words.includes(word));
  }
  for (const each of main.querySelectorAll("section")) each.hidden = !each.querySelector("details:not([hidden])");
}

async function begin() {
  try {
    const answer = await fetch("/openapi.json");
    if (answer.ok) draw(await answer.json());
    else if (answer.status === 401) {
      fill(main, h("p", null, "This daemon requires a token: ", h("a", { href: "/" }, "log in"), ", then come back."));
    } else fill(main, h("p.bad", null, `/openapi.json was answered with ${answer.status}.`));
  } catch {
    fill(main, h("p.bad", null, "The daemon cannot be reached; reload to try again."));
  }
}

addEventListener("hashchange", turn);
addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== find) { event.preventDefault(); find.focus(); }
});
find.addEventListener("input", sift);
dispatchEvent(new Event("began"));
begin();
