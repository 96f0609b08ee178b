// The page at /: choose a model or two, type a row, see the predictions.
import * as fields from "./fields.js";
import { byId, element, reveal } from "./elements.js";
import { kindOf } from "./kinds.js";
import { onKey, request } from "./service.js";

let models = [];
let sending = new AbortController(); // of the requests in flight; a new row cancels them

/** The JSON that a path answers with. Throws an Error with the service's sentence. */
async function fetched(path, options = {}) {
  let answer, text;
  try {
    answer = await request(path, options);
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer. Check that it runs, then try again.");
  }
  if (!answer.ok) throw new Error(sentence(text) || `The service answers with status ${answer.status}.`);
  return JSON.parse(text);
}

/** The reason in the body of an error: JSON with `detail`, or plain text. */
function sentence(text) {
  try {
    return String(JSON.parse(text).detail || "");
  } catch {
    return text.slice(0, 300);
  }
}

const named = (name) => models.find((model) => model.name === name);
const chosen = () => named(byId("model").value);
const title = ({name, model, version}) => (name === model ? `${name} · v${version}` : `${name} · ${model} v${version}`);

/** Read the list of models; `model` and `other` of the page's address, or what is chosen now, stay chosen. */
async function load() {
  const asked = new URLSearchParams(location.search);
  const first = byId("model").value || asked.get("model"), second = byId("other").value || asked.get("other");
  models = await fetched("models");
  if (!models.length) throw new Error("This service has no models.");
  byId("model").replaceChildren(...models.map(option));
  byId("model").value = (named(first) || models[0]).name;
  choose(second);
  byId("form").hidden = false;
}

const option = (model) => element("option", {value: model.name}, title(model));

/** Show the inputs of the chosen model, and the models that it can be compared with. */
function choose(second) {
  const model = chosen(), others = models.filter((other) => other !== model && fields.shape(other) === fields.shape(model));
  byId("other").replaceChildren(element("option", {value: ""}, "No other model"), ...others.map(option));
  byId("other").value = others.some(({name}) => name === second) ? second : "";
  byId("second").hidden = !others.length;
  byId("about").textContent = about(model);
  fields.show(model);
  remember();
}

function about(model) {
  const parts = [kindOf(model).title];
  if (model.labels.length && model.kind !== "choice") parts.push(`${model.labels.length} labels`);
  if (!["span", "tagging"].includes(model.kind)) parts.push(`reads up to ${model.max_length} tokens`);
  return parts.join(" · ");
}

/** Keep the chosen models in the page's address, but never a text. */
function remember() {
  const asked = new URLSearchParams({model: byId("model").value});
  if (byId("other").value) asked.set("other", byId("other").value);
  history.replaceState(null, "", `?${asked}`);
}

/** Ask the chosen models for the row, and show their answers. */
async function predict() {
  sending.abort();
  const {signal} = (sending = new AbortController());
  const row = fields.row(chosen()), pair = [chosen(), named(byId("other").value)].filter(Boolean);
  byId("results").setAttribute("aria-busy", "true");
  const outcomes = await Promise.all(pair.map((model) => outcome(model, row, signal)));
  if (signal.aborted) return;
  byId("results").removeAttribute("aria-busy");
  byId("results").replaceChildren(...outcomes.map(card));
  byId("results").querySelectorAll(".passage").forEach(reveal);
  const sentences = outcomes.map(({model, version, text}) => `${model.name} version ${version}: ${text}`);
  byId("status").textContent = sentences.join(". ");
  showAgreement(outcomes);
  const changed = outcomes.some(({model, version, problem}) => problem === undefined && version !== model.version);
  if (changed) await load().catch(() => {});
}

/** What a model answers: its prediction as text and elements, or a problem; and the milliseconds of the request. */
async function outcome(model, row, signal) {
  const start = performance.now();
  const body = JSON.stringify({rows: [row], scores: true});
  const options = {method: "POST", headers: {"Content-Type": "application/json"}, body, signal};
  try {
    const name = encodeURIComponent(model.name);
    const {version, truncated, predictions: [prediction]} = await fetched(`predict/${name}`, options);
    const latency = performance.now() - start;
    const now = version === model.version ? model : await fetched(`models/${name}`, {signal});
    const {answer, render} = kindOf(now);
    const content = render(prediction, row, now);
    const rest = `The model reads ${now.max_length} tokens; the rest of the text was left out.`;
    if (truncated) content.push(element("p", {class: "rest"}, rest));
    return {model, version, latency, text: answer(prediction, row, now), content};
  } catch (error) {
    return {model, version: model.version, text: error.message, problem: error.message};
  }
}

function card({model, version, latency, problem, content}) {
  const name = element("h2", {}, `${model.name} `, element("span", {class: "version"}, `version ${version}`));
  const made = element("article", {class: "card"}, element("header", {}, name));
  if (problem !== undefined) {
    made.append(element("p", {class: "problem"}, problem));
    return made;
  }
  const hint = "From the request to the answer in this browser";
  name.after(element("span", {class: "latency", title: hint}, `${latency.toFixed(latency < 10 ? 1 : 0)} ms`));
  made.append(...content);
  return made;
}

/** Say whether two models of one kind give the same answer; vectors of two encoders have nothing in common. */
function showAgreement([one, other]) {
  const alike = other && one.model.kind === other.model.kind && one.model.kind !== "embedding";
  const comparable = alike && !("problem" in one) && !("problem" in other);
  byId("agreement").hidden = !comparable;
  if (comparable) byId("agreement").textContent = one.text === other.text ? "Same answer" : "Different answers";
}

/** Remove results that no longer belong to what is chosen. */
function clear() {
  sending.abort();
  for (const id of ["results", "status"]) byId(id).replaceChildren();
  byId("results").removeAttribute("aria-busy");
  byId("agreement").hidden = true;
}

for (const id of ["model", "other"])
  byId(id).addEventListener("change", () => {
    const again = byId("results").childElementCount > 0;
    clear();
    choose(byId("other").value);
    if (again && byId("form").checkValidity()) predict();
  });
byId("form").addEventListener("keydown", fields.onKey);
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
byId("examples").addEventListener("click", ({target}) => {
  if (target.dataset.language) fields.fill(chosen(), target.dataset.language);
});
/** Load the models, or show why that fails. */
async function start() {
  clear();
  try {
    await load();
  } catch (error) {
    if (!byId("access").hidden && !byId("key").value) return; // the field says what is missing
    byId("results").replaceChildren(element("p", {class: "problem", role: "alert"}, error.message));
  }
}

onKey(async () => {
  await start();
  byId("fields").querySelector("textarea, input")?.focus();
});
start();
