// The page at /docs: every path of the service, with a form to try it.
import { byId, element } from "./elements.js";
import { onKey, request } from "./service.js";

function resolved(spec, schema) {
  return schema?.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema || {};
}

/** An example of a schema: its own, or one for each property that has one; null if there is none. */
function example(spec, reference) {
  const schema = resolved(spec, reference);
  if (schema.examples) return schema.examples[0];
  if (schema.type === "array") return [example(spec, schema.items)];
  if (!schema.properties) return null;
  const pairs = Object.entries(schema.properties).map(([name, property]) => [name, example(spec, property)]);
  return Object.fromEntries(pairs.filter(([, value]) => value !== null));
}

/** The card of one operation. */
function card(spec, path, verb, operation) {
  const verbName = element("span", {class: "verb"}, verb.toUpperCase());
  const rows = Object.entries(operation.responses).map(([status, answer]) =>
    element("tr", {}, element("td", {}, status), element("td", {}, answer.description)));
  const statuses = element("details", {}, element("summary", {}, "Statuses"), element("table", {}, ...rows));
  return element("article", {class: "card"}, element("h2", {}, verbName, path),
    element("p", {}, operation.description || operation.summary), statuses, ...form(spec, path, verb, operation));
}

/** A form that sends a request, and the place for its answer. */
function form(spec, path, verb, operation) {
  const out = element("pre", {"aria-live": "polite", tabindex: 0}), made = element("form");
  const names = (operation.parameters || []).filter((parameter) => parameter.in === "path").map(({name}) => name);
  const inputs = names.map((name) => element("input", {name, required: "", autocomplete: "off"}));
  made.append(...inputs.map((input) => element("label", {}, input.name, input)));
  const json = operation.requestBody?.content["application/json"];
  const body = json && element("textarea", {rows: 8},
    JSON.stringify(json.example ?? example(spec, json.schema), null, 2));
  if (body) made.append(element("label", {}, "Body", body));
  made.append(element("button", {}, "Send"));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = new Map(inputs.map((input) => [input.name, encodeURIComponent(input.value)]));
    const address = path.slice(1).replace(/\{(\w+)[^}]*\}/g, (whole, name) => values.get(name) ?? whole);
    const options = body ? {body: body.value, headers: {"Content-Type": "application/json"}} : {};
    out.textContent = await sent(address, {method: verb.toUpperCase(), ...options});
  });
  return [made, out];
}

async function sent(address, options) {
  try {
    const answer = await request(address, options);
    return `${answer.status}\n${await answer.text()}`;
  } catch (error) {
    return String(error);
  }
}

onKey(() => {});
const spec = await (await fetch("openapi.json")).json();
byId("about").textContent = spec.info.description;
for (const [path, verbs] of Object.entries(spec.paths))
  for (const [verb, operation] of Object.entries(verbs))
    document.querySelector("main").append(card(spec, path, verb, operation));
