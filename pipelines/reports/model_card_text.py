"""A model card as Markdown, with the metadata that Hugging Face reads; what is not known is left out, or said."""

from collections.abc import Iterator
from typing import Any

import yaml

from pipelines.core.errors import printable
from pipelines.reports.run_tables import pipes

Facts = dict[str, Any]
FEW = 10  # rows of a label in train at most, which the limits name
HUB_TASKS = {"span": "question-answering", "tagging": "token-classification", "choice": "multiple-choice"}
HUB_METRICS = {"macro_f1": "f1", "matthews": "matthews_correlation", "exact": "exact_match"}
HUB_METRICS |= {"pearson": "pearsonr", "spearman": "spearmanr"}
FOUND = {
    "duplicates": "repeat a text of their split",
    "conflicts": "have another label than an earlier row with their text",
    "near_duplicates": "are similar to an earlier row",
    "empty": "have no text",
    "unlabelled": "have no label",
}
WINDOWED = ("span", "tagging")  # kinds whose long texts are read in parts


def markdown(facts: Facts) -> str:
    """The card: metadata between lines of `---`, then a section for each thing that is known."""
    title = facts["name"] + (f" version {facts['version']}" if "version" in facts else "")
    data = yaml.safe_dump(_metadata(facts), allow_unicode=True, sort_keys=False, width=100)
    parts = [f"---\n{data}---", f"# {title}", _what(facts)]
    sections = {
        "Intended use": [facts.get("intended_use") or "None is declared: `intended_use` of the promote entry says it."],
        "Data": _data(facts),
        "Training": _training(facts["training"]),
        "Scores": _scores(facts),
        "Limits": [f"- {line}" for line in _limits(facts)],
        "Decisions": _decisions(facts),
        "Lineage": _lineage(facts),
    }
    for heading, lines in sections.items():
        if text := "\n".join(lines):
            parts.append(f"## {heading}\n\n{text}")
    return printable("\n\n".join(part.strip("\n") for part in parts), keep="\n")


def _metadata(facts: Facts) -> Facts:
    """The YAML of a card on Hugging Face's hub: language, license, tags, metrics and model-index."""
    task, scored = HUB_TASKS.get(facts["kind"], "text-classification"), facts["evaluation"]
    known = {"language": facts["language"], "license": facts.get("licence", "")}
    data = {key: value for key, value in known.items() if value}
    data |= {"pipeline_tag": task, "tags": [*filter(None, ["bertline", facts["kind"], facts["family"]])]}
    if not scored:
        return data
    metrics = [
        {"type": HUB_METRICS.get(name, name), "name": name, "value": round(value, 4)}
        for name, value in scored["metrics"].items()
        if name == scored["metric"]
    ]
    source = {"name": scored["task"], "type": facts["data"].get("corpus") or "unknown", "split": scored["split"]}
    result = {"task": {"type": task}, "dataset": source, "metrics": metrics}
    return data | {
        "metrics": [metric["type"] for metric in metrics],
        "model-index": [{"name": facts["name"], "results": [result]}],
    }


def _what(facts: Facts) -> str:
    sentences = [f"A model for rows of kind `{facts['kind']}`"]
    if facts["family"]:
        sentences[0] += f", of the family {facts['family']}"
    numbers = f"{facts['parameters']:,} parameters, {facts['size_bytes'] / 1e6:.1f} MB"
    sentences.append(numbers + (f", sequences of at most {facts['max_length']} tokens" if facts["max_length"] else ""))
    if facts["labels"]:
        sentences.append("Labels: " + ", ".join(f"`{label}`" for label in facts["labels"]))
    return ". ".join(sentences) + "."


def _data(facts: Facts) -> Iterator[str]:
    data = facts["data"]
    if not data:
        yield "The rows that it learned from are not here any more as they were."
        return
    licences = ", ".join(data["licences"]) or "not declared"
    yield f"Corpus `{data['corpus']}` from `{data['source']}`, prepared as `{data['task']}`; licence: {licences}."
    yield from ("", *_labels(data["splits"]))
    for split, counts in data["splits"].items():
        doubtful = [f"{counts[key]:,} {what}" for key, what in FOUND.items() if counts.get(key)]
        if doubtful:
            yield f"- Of the rows of {split}, {', '.join(doubtful)}."
    yield from (f"- {rows:,} rows are in both of {pair}." for pair, rows in data["shared"].items() if rows)


def _labels(splits: Facts) -> Iterator[str]:
    """A table of the rows of each split, in all and by label."""
    labels = dict.fromkeys(label for counts in splits.values() for label in counts["labels"])
    rows = [("all rows", *(f"{counts['rows']:,}" for counts in splits.values()))]
    rows += [(_cell(name), *(f"{counts['labels'].get(name, 0):,}" for counts in splits.values())) for name in labels]
    yield pipes([("label", *splits), *rows], text=1)


def _training(steps: list[Facts]) -> Iterator[str]:
    for step in steps:
        if "encoder" in step:
            made = f", made by the stage {step['stage']}" if step["stage"] else ""
            yield f"- The encoder was `{step['encoder']}`{made}."
        else:
            entry = ", ".join(f"{key}: {value}" for key, value in step["params"].items() if value not in ("", None, []))
            yield f"- Stage {step['stage']}: `{_cell(entry)}`"


def _scores(facts: Facts) -> Iterator[str]:
    scored = facts["evaluation"]
    if not scored:
        yield "No file here has its scores" + ("; the gate measured what stands below." if facts.get("gate") else ".")
        return
    metric = scored["metric"]
    yield f"On {scored['rows']:,} rows of {scored['task']} {scored['split']}, with 95% intervals by a bootstrap:"
    lines = [(f"**{facts['name']}**", _number(scored["metrics"][metric]), _interval(scored["interval"]))]
    for other in scored["baselines"]:
        lines.append((f"{other['run']} (baseline)", _number(other["score"]), _interval(other["interval"])))
    yield from ("", pipes([("model", metric, "95% interval"), *lines], text=1))
    if not scored["baselines"]:
        yield "No baseline answered the same rows.\n"
    if classes := scored.get("classes"):
        keys = ("precision", "recall", "f1")
        rows = [(_cell(name), *(_number(numbers[key]) for key in keys)) for name, numbers in classes.items()]
        yield pipes([("label", *keys), *rows], text=1)
    measured = [part for part in scored.get("slices", ()) if part["score"] is not None]
    if weak := [part for part in measured if part["score"] < scored["interval"][0]]:
        yield "Slices that score below that interval:\n"
        rows = [(_cell(part["slice"]), f"{part['rows']:,}", _number(part["score"])) for part in weak]
        yield pipes([("slice", "rows", metric), *rows], text=1)
    if checks := scored.get("behaviour"):
        yield "Behaviour checks:\n"
        rows = [_check(check) for check in checks]
        yield pipes([("check", "rows", "passed", "asked", ""), *rows], text=1)


def _check(check: Facts) -> tuple[str, ...]:
    verdict = "passes" if check["ok"] else "fails"
    shares = (_number(check["passed"]), _number(check["at_least"]))
    return (_cell(check["name"]), f"{check['rows']:,}", *shares, verdict)


def _limits(facts: Facts) -> Iterator[str]:
    scored, train = facts["evaluation"], facts["data"].get("splits", {}).get("train", {})
    if facts["max_length"] and facts["kind"] not in WINDOWED:
        cut = scored.get("truncated")
        of_rows = f"; so were {cut:,} of the {scored['rows']:,} rows it was scored on" if cut is not None else ""
        yield f"Texts of more than {facts['max_length']} tokens are cut{of_rows}."
    if facts["language"]:
        yield f"Its rows are in the language `{facts['language']}`; others were not measured."
    if scored:
        low, high = scored["interval"]
        yield f"It was scored on {scored['rows']:,} rows: the interval is {high - low:.3f} wide."
    if "only_answer" in scored:
        yield "It gives one answer for every row: it has learned nothing."
    if few := [f"{_cell(label)} ({rows})" for label, rows in train.get("labels", {}).items() if rows <= FEW]:
        yield f"Labels with at most {FEW} rows in train: {', '.join(few)}."


def _decisions(facts: Facts) -> Iterator[str]:
    if "version" not in facts:
        return
    yield f"- Approved by {_cell(facts['approved_by'])}." if facts["approved_by"] else "- No person has approved it."
    for event in facts["events"]:
        reason = f": {_cell(event['reason'])}" if event["reason"] else ""
        yield f"- {event['at']}: {event['action']} by {_cell(event['actor'])}{reason}."
    yield "- It is the champion." if facts["champion"] else "- It is not the champion."
    yield from (f"- The gate: {_cell(sentence)}." for sentence in facts["gate"])


def _lineage(facts: Facts) -> Iterator[str]:
    if "version" in facts:
        edits = " with uncommitted edits" if facts["dirty"] else ""
        yield f"- Commit: {_cell(facts['commit'])}{edits}" if facts["commit"] else "- Its commit is not known."
        yield from (f"- {name}: `{digest}`" for name, digest in facts["md5"].items())
    if facts["run"]:
        yield f"- Run: `{facts['run']}`"
    yield from (f"- It read `{path}`, sha256 `{digest}`" for path, digest in facts["inputs"].items())
    yield from (f"- Before it: `{path}`, md5 `{md5}`" for path, md5 in facts.get("stages", {}).items())


def _cell(text: object) -> str:
    """Text on one line, as a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _number(value: float) -> str:
    return f"{value:.3f}"


def _interval(bounds: list[float]) -> str:
    return "{:.3f} to {:.3f}".format(*bounds)
