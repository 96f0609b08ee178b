// Elements of the page. Text from outside becomes text nodes only, never HTML.

export const byId = (id) => document.getElementById(id);

/** A new element. Attributes that are null are left out; children are elements and strings. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The language of a text, so that a browser takes the right shapes for Japanese characters. */
export function language(text) {
  return /\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Han}/u.test(text) ? "ja" : null;
}

/**
 * A passage in which some spans are marked.
 *
 * The service counts Unicode code points, and JavaScript counts UTF-16 units, so an emoji is one or two.
 *
 * spans: objects with `start` and `end`, and with `mark(text)` that returns the element for the span. A span that
 * overlaps the one before it is left out.
 */
export function passage(text, spans) {
  const points = Array.from(text);
  const part = (start, end) => points.slice(start, end).join("");
  const box = element("p", {class: "passage", lang: language(text), dir: "auto"});
  let at = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < at || span.end <= span.start) continue;
    box.append(part(at, span.start), span.mark(part(span.start, span.end)));
    at = span.end;
  }
  box.append(part(at));
  return box;
}

/** Scroll a long passage to its first mark, and let the keyboard scroll it. */
export function reveal(box) {
  if (box.scrollHeight <= box.clientHeight) return;
  Object.assign(box, {tabIndex: 0, role: "group", ariaLabel: "Text"});
  const mark = box.querySelector("mark");
  if (mark) box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 3;
}

export const length = (text) => Array.from(text).length;

/** A probability in percent, never rounded to 0 or to 100. */
export function percent(probability) {
  if (probability > 0 && probability < 0.0005) return "< 0.1%";
  if (probability < 1 && probability >= 0.9995) return "> 99.9%";
  return (100 * probability).toFixed(1) + "%";
}
