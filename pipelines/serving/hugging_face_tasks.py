"""The tasks of Hugging Face's inference API: the parameters and the answers of each kind of model."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from pipelines.core.errors import InputError
from pipelines.inference import embedding, fill_mask
from pipelines.serving.request_bodies import Strict
from pipelines.serving.served_model import ServedModel

Row = dict[str, Any]
MAX_SEQUENCES = 2_000_000  # characters in all texts with a guess filled in, of one answer


class Classification(Strict):
    """text-classification: one text or a pair."""

    top_k: Annotated[int, Field(ge=1)] | None = None
    function_to_apply: Literal["softmax"] = "softmax"


class Regression(Strict):
    """text-classification with a number for its score."""

    top_k: Literal[1] = 1
    function_to_apply: Literal["none"] = "none"


class Choice(Strict):
    """zero-shot-classification: the candidates are the choices of a row."""

    candidate_labels: list[str]
    multi_label: Literal[False] = False
    hypothesis_template: Literal["{}"] = "{}"


class Entities(Strict):
    """token-classification. A word has the label of its first token, as in the strategy "first"."""

    aggregation_strategy: Literal["simple", "first"] = "simple"
    ignore_labels: list[str] = []


class Answering(Strict):
    """question-answering; the other settings are those that the model was trained with."""

    top_k: Literal[1] = 1
    align_to_words: Literal[False] = False
    handle_impossible_answer: bool | None = None


class Features(Strict):
    """feature-extraction: a vector for each text."""

    normalize: bool = False
    truncate: Literal[True] = True
    truncation_direction: Literal["right"] = "right"
    encoding_format: Literal["float"] = "float"


class Filling(Strict):
    """fill-mask."""

    top_k: Annotated[int, Field(ge=1, le=fill_mask.TOP)] = 5


def labels(model: ServedModel, row: Row, prediction: Row, parameters: Classification) -> list[Row]:
    """The labels with their probabilities, the likeliest first."""
    return _ranked(model.task.labels, prediction["scores"])[: parameters.top_k]


def number(model: ServedModel, row: Row, prediction: Row, parameters: Regression) -> list[Row]:
    return [{"label": "value", "score": prediction["value"]}]


def choice(model: ServedModel, row: Row, prediction: Row, parameters: Choice) -> list[Row]:
    """The candidates with their probabilities, the likeliest first."""
    return _ranked(row["choices"], prediction["scores"])


def entities(model: ServedModel, row: Row, prediction: Row, parameters: Entities) -> list[Row]:
    """The entities of a text. The score of each is the mean probability of its tags."""
    return [
        {
            "entity_group": entity["label"],
            "score": score,
            "word": row["text"][entity["start"] : entity["end"]],
            "start": entity["start"],
            "end": entity["end"],
        }
        for entity, score in zip(prediction["entities"], prediction["entity_scores"], strict=True)
        if entity["label"] not in parameters.ignore_labels
    ]


def answer(model: ServedModel, row: Row, prediction: Row, parameters: Answering) -> Row:
    """The answer and its characters in the context; empty, from 0 to 0, if the model finds none."""
    text = prediction["answer"]
    start = prediction["start"] if text else 0
    return {"answer": text, "score": prediction["score"], "start": start, "end": start + len(text)}


def vector(model: ServedModel, row: Row, prediction: Row, parameters: Features) -> list[float]:
    numbers = prediction["vector"]
    return embedding.unit(numbers).tolist() if parameters.normalize else numbers


def guesses(model: ServedModel, row: Row, prediction: Row, parameters: Filling) -> list[Any]:
    """The guesses for the one [MASK] of a text; a list of them for each if it has several."""
    parts = row["text"].split(fill_mask.MASK)
    filled = []
    for i, of_mask in enumerate(prediction["guesses"]):
        before, after = fill_mask.MASK.join(parts[: i + 1]), fill_mask.MASK.join(parts[i + 1 :])
        filled.append([_guess(before, guess, after) for guess in of_mask[: parameters.top_k]])
    return filled[0] if len(filled) == 1 else filled


def _guess(before: str, guess: Row, after: str) -> Row:
    """One guess: `sequence` is the text with the piece in place of [MASK], without the marks of subwords."""
    piece = guess["piece"].removeprefix("##").replace("▁", " ")
    if not before or before[-1].isspace():
        piece = piece.lstrip()
    return {
        "score": guess["score"],
        "token": guess["id"],
        "token_str": guess["piece"],
        "sequence": f"{before}{piece}{after}",
    }


def _ranked(names: Any, scores: list[float]) -> list[Row]:
    pairs = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return sorted(pairs, key=lambda pair: -pair["score"])


class Shape(NamedTuple):
    """A task: the schema of its parameters, and the answer for one row."""

    parameters: type[Strict]
    answer: Callable[..., Any]  # of the model, the row, its prediction and the parameters
    nested: bool = False  # whether the answer to one input is a list of one answer


FOR_KIND = {
    "single": Shape(Classification, labels, nested=True),
    "pair": Shape(Classification, labels, nested=True),
    "regression": Shape(Regression, number, nested=True),
    "choice": Shape(Choice, choice),
    "tagging": Shape(Entities, entities),
    "span": Shape(Answering, answer),
    embedding.KIND: Shape(Features, vector, nested=True),
    fill_mask.KIND: Shape(Filling, guesses),
}


def rows(model: ServedModel, inputs: list[Any], parameters: Strict) -> list[Row]:
    """The rows for inputs: each a text, or an object with the columns of a row. Raises InputError.

    The choices of a row are the candidate labels; a regression takes a single text too.
    """
    fixed: Row = {"choices": parameters.candidate_labels} if isinstance(parameters, Choice) else {}
    columns = [name for name in model.inputs if name not in fixed]
    alone = columns == ["text"] or model.task.kind == "regression"
    empty = {name: "" for name in columns if name != "text"}
    records = []
    for number, value in enumerate(inputs):
        record = {**empty, "text": value} if isinstance(value, str) and alone else value
        if not isinstance(record, dict) or set(record) != set(columns):
            expected = f"an object with {' and '.join(columns)}" if len(columns) > 1 else "a text"
            raise InputError(f"inputs: number {number} is not {expected}, which {model.name} reads")
        records.append(record | fixed)
    return records


def check(model: ServedModel, parameters: Strict, sent: list[Row]) -> None:
    """Raise InputError for parameters that do not fit the model or the rows."""
    if isinstance(parameters, Answering):
        trained = model.task.unanswerable
        if parameters.handle_impossible_answer not in (None, trained):
            raise InputError(
                f"parameters: handle_impossible_answer: {model.name} was trained on questions that "
                f"{'may have no' if trained else 'all have an'} answer; leave it out, or send {str(trained).lower()}"
            )
    if isinstance(parameters, Filling):
        texts = [row["text"] for row in sent if isinstance(row["text"], str)]
        size = sum(len(text) * text.count(fill_mask.MASK) for text in texts) * parameters.top_k
        if size > MAX_SEQUENCES:
            raise InputError("inputs: the texts with their guesses would be too long; send shorter ones, or less top_k")
