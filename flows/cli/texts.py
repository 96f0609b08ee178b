"""The commands that ask a model about texts: predict, answer, tag, embed, fill-mask."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.arguments import group, importing, json_with
from flows.cli.panels import SERVE, listed
from pipelines.core.errors import UsageError, printable

if TYPE_CHECKING:
    from bertline.loaded_model import LoadedModel

cli = group()
SHOWN = 60  # characters of a text in a table
BEST = 3  # labels in a table
ENTITY = ("text", "label", "start", "end", "score")
GUESS = ("piece", "score")
Model = Annotated[str, typer.Argument(help="a registered model (NAME, NAME@ALIAS, NAME@NUMBER) or a folder")]
Texts = Annotated[
    list[str] | None, typer.Argument(metavar="[TEXT... | FILE | -]", help="texts, a file, or - for standard input")
]
Columns = Annotated[list[str] | None, typer.Option("--column", help="NAME=COLUMN of the file; may be repeated")]
PREDICTED = "an object for each row: label, score, scores; for a regression: value"
TAGGED = "an object for each row: entities (a list of text, label, start, end, score)"
# kind -> the command that asks models of it
COMMANDS = {"span": "`bertline answer`", "tagging": "`bertline tag`"}
COMMANDS |= {"embedding": "`bertline embed` or `bertline fill-mask`"}


@cli.command(**listed(SERVE, 'bertline predict headlines@champion "新型スマートフォンの発売日が決定"'))
def predict(
    model: Model,
    texts: Texts = None,
    columns: Columns = None,
    as_json: Annotated[bool, json_with(PREDICTED)] = False,
) -> None:
    """Print the labels, the number or the choice that MODEL predicts for texts."""
    opened = _opened(model, ("single", "pair", "regression", "choice"))
    rows = _rows(opened.kind, texts, columns)
    answers = opened.table(rows).to_pylist() if rows else []
    if as_json:
        _print_json({**answer, **_scores(answer, opened.labels)} for answer in answers)
        return
    if opened.kind == "regression":
        _print_table(
            ("text", "value"), ([_row_text(row), f"{a['value']:.4f}"] for row, a in zip(rows, answers, strict=True))
        )
        return
    _print_table(
        ("text", "label", "probability", "next"),
        ([_row_text(row), *_labels(answer, opened, row)] for row, answer in zip(rows, answers, strict=True)),
    )


@cli.command(**listed(SERVE, 'bertline answer artifacts/onnx/squad "Who wrote it?" letter.txt'))
def answer(
    model: Model,
    question: Annotated[str, typer.Argument(help="a question about the context")],
    context: Annotated[
        str, typer.Argument(metavar="CONTEXT | FILE | -", help="a text, a file, or - for standard input")
    ],
    as_json: Annotated[bool, json_with("answer, score, start, end")] = False,
) -> None:
    """Print the answer to QUESTION that MODEL finds in CONTEXT."""
    opened = _opened(model, ("span",))
    from flows.cli import text_inputs

    best = opened.predict(question, text_inputs.text(context))
    if as_json:
        _print_json([{"answer": best.text, "score": best.score, "start": best.start, "end": best.end}])
        return
    place = f"{best.start} to {best.end}" if best.text else ""
    _print_table(("answer", "probability", "characters"), [[best.text or "no answer", f"{best.score:.3f}", place]])


@cli.command(**listed(SERVE, 'bertline tag artifacts/onnx/ner "Ada Lovelace was born in London."'))
def tag(
    model: Model, texts: Texts = None, columns: Columns = None, as_json: Annotated[bool, json_with(TAGGED)] = False
) -> None:
    """Print the entities that MODEL finds in texts."""
    opened = _opened(model, ("tagging",))
    rows = _rows(opened.kind, texts, columns)
    entities = opened.predict(rows) if rows else []
    if as_json:
        _print_json({"entities": [dict(zip(ENTITY, entity, strict=True)) for entity in row]} for row in entities)
        return
    lines = (
        [_short(row["text"]), entity.text, entity.label, f"{entity.score:.3f}", f"{entity.start} to {entity.end}"]
        for row, listed in zip(rows, entities, strict=True)
        for entity in listed
    )
    _print_table(("text", "entity", "label", "probability", "characters"), lines)


@cli.command(**listed(SERVE, "bertline embed encoders/mini-ja --json - < texts.txt"))
def embed(
    model: Model,
    texts: Texts = None,
    columns: Columns = None,
    pooling: Annotated[str, typer.Option(help="mean of all tokens, or cls")] = "mean",
    normalize: Annotated[bool, typer.Option(help="make each vector's length 1")] = False,
    as_json: Annotated[bool, json_with("an object for each row: vector")] = False,
) -> None:
    """Print the vectors of texts, by the encoder of MODEL; the export of an encoder needs no torch."""
    opened = _opened(model, ())
    rows = _rows("embedding", texts, columns)
    vectors: Any = opened.embed(rows, pooling, normalize) if rows else []
    if as_json:
        _print_json({"vector": vector.tolist()} for vector in vectors)
        return
    lines = (
        [_short(row["text"]), str(len(vector)), " ".join(f"{x:.3f}" for x in vector[:4]) + " ..."]
        for row, vector in zip(rows, vectors, strict=True)
    )
    _print_table(("text", "numbers", "the first"), lines)


@cli.command("fill-mask", **listed(SERVE, 'bertline fill-mask encoders/mini-ja "私は[MASK]が好き。"'))
def fill_mask(
    encoder: Annotated[Path, typer.Argument(help="the folder of a pretrained encoder, or of its export")],
    text: Annotated[str, typer.Argument(help="a text with one or more [MASK]")],
    top: Annotated[int, typer.Option(min=1, help="pieces for each [MASK]")] = 5,
    as_json: Annotated[bool, json_with("an object for each [MASK]: guesses (a list of piece, score)")] = False,
) -> None:
    """Print the words that ENCODER would put in place of each [MASK] of TEXT."""
    from pipelines.inference.fill_mask import fill, require_mask

    require_mask(text)
    with importing():  # torch and transformers, unless it is an export
        masks = fill(encoder, text, top)
    if as_json:
        _print_json({"guesses": [dict(zip(GUESS, guess, strict=True)) for guess in guesses]} for guesses in masks)
        return
    for number, guesses in enumerate(masks, start=1):
        print(f"[MASK] {number}")
        for guess in guesses:
            print(f"  {guess.probability:.4f}  {printable(guess.piece)}")


def _opened(model: str, kinds: tuple[str, ...]) -> "LoadedModel":
    """The model. Raises UsageError, with the command that fits, if it is of none of `kinds`; () takes every kind."""
    import bertline

    opened = bertline.load(model)
    if kinds and opened.kind not in kinds:
        raise UsageError(f"{model} is of kind {opened.kind}: use {COMMANDS.get(opened.kind, '`bertline predict`')}")
    return opened


def _rows(kind: str, texts: list[str] | None, columns: list[str] | None) -> list[dict[str, Any]]:
    """The rows that a command is given, as dicts of the kind's input columns."""
    from flows.cli import text_inputs  # it takes Arrow, which other commands need not wait for

    return text_inputs.rows(kind, texts or [], _names(columns))


def _names(columns: list[str] | None) -> dict[str, str]:
    """The names of a file's columns, by ours. Raises UsageError for one without `=`."""
    pairs = [column.partition("=") for column in columns or []]
    for ours, equals, column in pairs:
        if not (ours and equals and column):
            raise UsageError(f"--column {ours}: NAME=COLUMN is expected, such as text=title")
    return {ours: column for ours, _, column in pairs}


def _scores(answer: dict[str, Any], labels: tuple[str, ...]) -> dict[str, Any]:
    """The probabilities by label, if there are labels."""
    return {"scores": dict(zip(labels, answer["scores"], strict=True))} if "scores" in answer else {}


def _labels(answer: dict[str, Any], opened: "LoadedModel", row: dict[str, Any]) -> list[str]:
    """The likeliest label, its probability, and those after it; for a choice, its text."""
    names = [_short(text) for text in row["choices"]] if opened.kind == "choice" else list(opened.labels)
    ranked = sorted(zip(names, answer["scores"], strict=True), key=lambda pair: -pair[1])[:BEST]
    (label, score), *others = ranked
    return [label, f"{score:.3f}", ", ".join(f"{name} {number:.3f}" for name, number in others)]


def _row_text(row: dict[str, Any]) -> str:
    return " | ".join(_short(value) for value in row.values() if isinstance(value, str) and value)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _print_json(answers: Iterable[dict[str, Any]]) -> None:
    for answer in answers:
        sys.stdout.write(printable(json.dumps(answer, ensure_ascii=False)) + "\n")


def _print_table(names: tuple[str, ...], lines: Iterable[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*names, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*(Text(printable(cell)) for cell in line))
    Console().print(table)
