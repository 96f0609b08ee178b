// The kinds of rows: how a prediction of each kind is shown.
//
// A kind is an entry of KINDS: its title, `answer`, which returns the prediction as a short text, and `render`, which
// returns the elements of a card. Both get the prediction, the row that was sent, and the model.
import { element, language, length, passage, percent } from "./elements.js";

const MOST_BARS = 8; // labels that are shown at once

const labels = {
  answer: ({label}) => label,
  render: ({scores}) => bars(Object.entries(scores)), // of the version that answered: a canary may have other labels
};

export const KINDS = {
  single: {title: "Text classification", ...labels},
  pair: {title: "Classification of two texts", ...labels},
  choice: {
    title: "Multiple choice",
    answer: ({label}, row, model) => row.choices[model.labels.indexOf(label)],
    render: ({scores}, row, model) => bars(model.labels.map((label, i) => [row.choices[i], scores[label]])),
  },
  regression: {
    title: "Regression",
    answer: ({value}) => number(value),
    render: ({value}) => [element("p", {class: "number", title: value}, number(value))],
  },
  span: {
    title: "Question answering",
    answer: ({answer}) => answer || "No answer",
    render: answered,
  },
  tagging: {
    title: "Named entities",
    answer: ({entities}, row) => {
      const points = Array.from(row.text);
      const words = entities.map(({start, end, label}) => `${points.slice(start, end).join("")} (${label})`);
      return words.join(", ") || "No entities";
    },
    render: entities,
  },
  fill_mask: {
    title: "Words for [MASK]",
    answer: ({guesses}) => guesses.map(([first]) => first.piece).join(", "),
    render: ({guesses}) => guesses.flatMap((list, place) => [
      ...(guesses.length > 1 ? [element("h3", {class: "quiet"}, `[MASK] ${place + 1}`)] : []),
      ...bars(list.map(({piece, score}) => [piece, score])),
    ]),
  },
  embedding: {
    title: "Vector of a text",
    answer: ({vector}) => `${vector.length} numbers`,
    render: ({vector, tokens}) => [
      headline(`${vector.length} numbers`, `of ${tokens} tokens`),
      element("details", {}, element("summary", {}, "Numbers"), element("pre", {}, vector.map(number).join("  "))),
    ],
  },
};

/** The kind of a model; a kind that this page does not know shows its prediction as JSON. */
export function kindOf(model) {
  return KINDS[model.kind] || {
    title: model.kind,
    answer: (prediction) => JSON.stringify(prediction),
    render: (prediction) => [element("pre", {}, JSON.stringify(prediction, null, 2))],
  };
}

const number = (value) => (Math.abs(value) < 1e6 ? value.toFixed(3) : value.toPrecision(6));

/** The answer in large letters, and its probability. */
function headline(text, probability) {
  const strong = element("strong", {lang: language(text)}, text);
  return element("p", {class: "answer"}, strong, element("span", {}, probability));
}

/** Bars for [name, probability] pairs, the likeliest first. */
function bars(pairs) {
  const sorted = [...pairs].sort((a, b) => b[1] - a[1]);
  const lines = sorted.map(([name, probability], place) => {
    const bar = element("span"), track = element("span", {class: "track", "aria-hidden": "true"}, bar);
    bar.style.width = `${100 * probability}%`;
    return element("li", {class: place ? null : "first"}, element("span", {lang: language(name)}, name),
      element("span", {class: "share"}, percent(probability)), track);
  });
  const list = (items) => element("ol", {class: "bars"}, ...items);
  if (lines.length <= MOST_BARS + 1) return [list(lines)];
  const summary = element("summary", {}, `${lines.length - MOST_BARS} more`);
  return [list(lines.slice(0, MOST_BARS)), element("details", {}, summary, list(lines.slice(MOST_BARS)))];
}

/** The answer, and the context in which it is marked. Without an answer, the likeliest span is underlined. */
function answered({answer, best, start, score}, {context}) {
  const name = answer ? "span" : "unlikely";
  const span = {start, end: start + length(best), mark: (text) => element("mark", {class: name}, text)};
  const shown = [headline(answer || "No answer", percent(score)), passage(context, [span])];
  if (!answer && best) shown.push(element("p", {class: "quiet"}, "The likeliest span is underlined."));
  return shown;
}

/** The text with its entities in the colours of their labels, their probabilities, and how often each label occurs. */
function entities({entities, entity_scores: scores, score}, {text}, {labels}) {
  const hues = new Map(), counts = new Map();
  const order = [...labels, ...entities.map(({label}) => label)];
  for (const label of order) if (!hues.has(label)) hues.set(label, Math.round(hues.size * 137.5 + 215) % 360);
  const coloured = (made, label) => {
    made.style.setProperty("--hue", hues.get(label));
    return made;
  };
  const spans = entities.map(({start, end, label}, place) => {
    counts.set(label, (counts.get(label) || 0) + 1);
    const name = `${label} ${percent(scores[place])}`;
    const mark = (part) => coloured(element("mark", {class: "entity"}, part, element("small", {}, name)), label);
    return {start, end, mark};
  });
  const legend = [...counts].map(([label, count]) => coloured(element("li", {}, `${label} ${count}`), label));
  const count = entities.length === 1 ? "1 entity" : `${entities.length || "No"} entities`;
  const list = element("ul", {class: "legend"}, ...legend);
  return [headline(count, `${percent(score)} per token`), passage(text, spans), list];
}
