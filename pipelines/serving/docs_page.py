"""The page at /docs: every path of the service, with a form to try it. It loads nothing from other hosts."""

from typing import Any

# forbids the browser to load anything from other hosts
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>bertline</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
textarea, pre { width: 100%; box-sizing: border-box; font: 14px monospace; white-space: pre-wrap }
h2 { border-top: 1px solid #ccc; padding-top: 1rem } td { padding-right: 1rem; vertical-align: top }
</style>
<h1>bertline</h1><p id="about"></p><p>For programs: <a href="openapi.json">openapi.json</a></p><main></main>
<noscript>This page needs JavaScript; openapi.json has what it shows.</noscript>
<script>
function add(parent, tag, text) {
  const made = document.createElement(tag);
  made.textContent = text || "";
  return parent.appendChild(made);
}
function resolved(spec, schema) {
  return schema && schema.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema || {};
}
function example(spec, given) {
  const schema = resolved(spec, given);
  if (schema.examples) return schema.examples[0];
  if (schema.type === "array") return [example(spec, schema.items)];
  if (!schema.properties) return null;
  const found = {};
  for (const [name, each] of Object.entries(schema.properties)) {
    const value = example(spec, each);
    if (value !== null) found[name] = value;
  }
  return found;
}
function form(main, spec, path, verb, operation) {
  add(main, "h2", verb.toUpperCase() + " " + path);
  add(main, "p", operation.description || operation.summary);
  const table = add(main, "table");
  for (const [status, answer] of Object.entries(operation.responses)) {
    const row = add(table, "tr");
    add(row, "td", status);
    add(row, "td", answer.description);
  }
  const body = operation.requestBody && operation.requestBody.content["application/json"].schema;
  const text = body && add(main, "textarea");
  if (text) { text.rows = 8; text.value = JSON.stringify(example(spec, body), null, 2); }
  const button = add(main, "button", "Send"), out = add(main, "pre");
  button.onclick = async () => {
    const options = text ? {body: text.value, headers: {"Content-Type": "application/json"}} : {};
    try {
      const answer = await fetch(path.slice(1), {method: verb.toUpperCase(), ...options});
      out.textContent = answer.status + "\\n" + await answer.text();
    } catch (error) { out.textContent = String(error); }
  };
}
(async () => {
  const spec = await (await fetch("openapi.json")).json(), main = document.querySelector("main");
  document.getElementById("about").textContent = spec.info.description;
  for (const [path, verbs] of Object.entries(spec.paths))
    for (const [verb, operation] of Object.entries(verbs)) form(main, spec, path, verb, operation);
})();
</script></html>
"""


def response() -> Any:
    """The page as a response, with the Content-Security-Policy above."""
    from fastapi.responses import HTMLResponse

    return HTMLResponse(HTML, headers={"Content-Security-Policy": POLICY})
