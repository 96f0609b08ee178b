// The inputs of a model: a field for each column of its rows.
import { byId, element, language } from "./elements.js";

const ENTER = ["Enter", " predicts, ", "Shift", " + ", "Enter", " starts a line"];
const CONTROL = ["Ctrl", " + ", "Enter", " predicts"];
// `enter`: Enter sends the row; elsewhere it starts a new line, and Ctrl-Enter sends
const COLUMNS = {
  text: {label: "Text", lines: 3, enter: true},
  text_pair: {label: "Second text", lines: 3, enter: true},
  question: {label: "Question", lines: 1, enter: true},
  context: {label: "Context", lines: 7, enter: false},
};
const JAPANESE = {
  text: "新型スマートフォンの予約開始、五色展開で登場",
  text_pair: "新しいスマホの予約が始まった",
  question: "電話を発明したのは誰ですか",
  context: "電話は1876年にアレクサンダー・グラハム・ベルがボストンで発明した。翌年、日本にも電話機が輸入された。",
  choices: ["予約する", "料理をする", "試合を見る", "本を読む", "眠る"],
};
const ENGLISH = {
  text: "Apple opens a new office in Tokyo next spring",
  text_pair: "The company will have another office in Japan",
  question: "Who invented the telephone?",
  context: "The telephone was invented in Boston in 1876 by Alexander Graham Bell. "
    + "A year later the first devices reached Japan.",
  choices: ["It moves to Tokyo", "It sells its phones", "It plants a tree", "It opens a school", "It rests"],
};
const EXAMPLES = {
  ja: {
    of: JAPANESE,
    tagging: {text: "田中さんは四月に東京から大阪の大学へ移りました。😀"},
    fill_mask: {text: "新しい[MASK]を買った。"},
  },
  en: {
    of: ENGLISH,
    tagging: {text: "Mary Tanaka moved from Tokyo to Osaka University in April. 😀"},
    fill_mask: {text: "She bought a new [MASK]."},
  },
};
const values = new Map(); // what was typed, by column; a change of the model keeps it
let shown = ""; // the shape of the fields

/** What two models have in common that take the same rows. */
export const shape = ({inputs, labels}) =>
  String(inputs.map((name) => (name === "choices" ? `${labels.length} choices` : name)));

/** Show the fields of a model, with what was typed before. Fields that stay keep the focus. */
export function show(model) {
  save();
  if (shown !== shape(model)) build(model);
}

function build(model) {
  shown = shape(model);
  const fields = model.inputs.map((name) => (name === "choices" ? choices(model.labels.length) : field(name)));
  byId("fields").replaceChildren(...fields);
  requireText();
  const keys = model.inputs.every((name) => sendsOnEnter(name)) ? ENTER : CONTROL;
  byId("keys").replaceChildren(...keys.map((part) => (/^\w+$/.test(part) ? element("kbd", {}, part) : part)));
}

/** The row that the fields hold. */
export function row(model) {
  save();
  return Object.fromEntries(model.inputs.map((name) => [name, values.get(name)]));
}

/** Fill the fields with an example in a language. */
export function fill(model, code) {
  const example = {...EXAMPLES[code].of, ...EXAMPLES[code][model.kind]};
  for (const name of model.inputs) values.set(name, example[name] || "");
  build(model);
}

/** Send the form on Enter; Ctrl-Enter sends it in every field. An Enter that ends a Japanese conversion does not. */
export function onKey(event) {
  if (event.key !== "Enter" || event.isComposing || event.keyCode === 229 || event.shiftKey || event.altKey) return;
  const input = event.target.closest("textarea, input");
  if (!input || !(event.ctrlKey || event.metaKey || sendsOnEnter(input.name))) return;
  event.preventDefault();
  byId("form").requestSubmit();
}

const sendsOnEnter = (name) => name === "choices" || COLUMNS[name]?.enter;

function save() {
  for (const input of byId("fields").querySelectorAll("[name]"))
    if (input.name !== "choices") values.set(input.name, input.value);
  const several = byId("fields").querySelectorAll("[name=choices]");
  if (several.length) values.set("choices", Array.from(several, (input) => input.value));
}

function field(name) {
  const {label, lines} = COLUMNS[name] || {label: name, lines: 3};
  const value = values.get(name) || "";
  const common = {name, dir: "auto", lang: language(value), autocomplete: "off"};
  const input = lines === 1 ? element("input", common) : element("textarea", {...common, rows: lines});
  return element("label", {}, label, filled(input, value));
}

function choices(count) {
  const before = values.get("choices") || [];
  const inputs = Array.from({length: count}, (_, i) => {
    const input = element("input", {name: "choices", dir: "auto", "aria-label": `Choice ${i + 1}`});
    return element("label", {class: "choice"}, `${i + 1}`, filled(input, before[i] || ""));
  });
  return element("fieldset", {}, element("legend", {class: "label"}, "Choices"), ...inputs);
}

function filled(input, value) {
  input.value = value;
  input.addEventListener("input", () => {
    input.lang = language(input.value) || "";
    requireText();
  });
  return input;
}

/** Let the browser ask for a text while all fields are empty; a row may have empty ones, such as a choice. */
function requireText() {
  const inputs = Array.from(byId("fields").querySelectorAll("[name]"));
  inputs[0].required = inputs.every((input) => !input.value);
}
