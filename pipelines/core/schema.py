"""The Arrow schemas of the files that pass between stages, one per kind of rows."""

from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from pipelines.core.errors import UsageError

_ID = pa.field("id", pa.string(), nullable=False)
_TEXT = pa.field("text", pa.string(), nullable=False)
_LABEL = pa.field("label", pa.string())  # null if the split has no labels

ANSWERS = pa.list_(pa.struct([("text", pa.string()), ("start", pa.int32())]))  # start: character of the context
ENTITIES = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]))  # characters


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False)


# rows/<task>/<split>.parquet: readable rows. The target is null where a split has no labels.
ROWS: dict[str, pa.Schema] = {
    "single": pa.schema([_ID, _TEXT, _LABEL]),
    "pair": pa.schema([_ID, _TEXT, _text("text_pair"), _LABEL]),
    "regression": pa.schema([_ID, _TEXT, _text("text_pair"), pa.field("label", pa.float64())]),
    "span": pa.schema([_ID, _text("question"), _text("context"), pa.field("answers", ANSWERS)]),  # []: no answer
    "tagging": pa.schema([_ID, _TEXT, pa.field("entities", ENTITIES)]),
    "choice": pa.schema([_ID, _TEXT, pa.field("choices", pa.list_(pa.string()), nullable=False), _LABEL]),
    "text": pa.schema([_ID, _TEXT]),  # to pretrain on
    "positive_pair": pa.schema([_ID, _TEXT, _text("text_pair")]),  # to pretrain on: a title and a passage
}
# The target: the column that is predicted.
TARGETS = {"span": "answers", "tagging": "entities"} | dict.fromkeys(
    ("single", "pair", "regression", "choice"), "label"
)

# The metrics that can rank models, the default first; a classifier's f1 is the F1 of the second of two labels.
METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("single", "pair", "choice"), ("accuracy", "macro_f1", "matthews", "f1")),
    "regression": ("pearson", "spearman"),
    "span": ("f1", "exact"),
    "tagging": ("f1", "precision", "recall"),
}

# The ways to normalize answers before they are compared; see evaluation/answer_scores.py.
NORMALIZATIONS = ("squad", "nfkc", "jglue", "jaquad")

# The columns of a request for predictions: the rows without id and target.
INPUTS: dict[str, list[str]] = {
    kind: [name for name in schema.names if name not in ("id", TARGETS.get(kind))] for kind, schema in ROWS.items()
}
# An encoder's own kinds: a vector for a text, and the pieces for each [MASK]. They have no rows to train on.
INPUTS |= {"embedding": ["text"], "fill_mask": ["text"]}


def _said(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_CLASSES = [
    _said("label", pa.string()),
    _said("score", pa.float32()),  # probability of `label`
    _said("scores", pa.list_(pa.float32())),  # of every label, in task.labels' order
]
# predictions/<run>/<split>.parquet: one row for each input row, in its order
PREDICTIONS: dict[str, pa.Schema] = {
    **dict.fromkeys(("single", "pair", "choice"), pa.schema([_ID, *_CLASSES])),
    "regression": pa.schema([_ID, _said("value", pa.float32())]),
    "span": pa.schema(
        [
            _ID,
            _said("answer", pa.string()),  # empty where the model finds no answer
            _said("start", pa.int32()),  # character of the context; the start of `best` where there is no answer
            _said("score", pa.float32()),  # probability of the answer among the likeliest spans
            _said("best", pa.string()),  # the likeliest span, whether or not it is the answer
            _said("no_answer", pa.float32()),  # score of no answer minus score of `best`, in logits
        ]
    ),
    "tagging": pa.schema(
        [
            _ID,
            _said("entities", ENTITIES),
            _said("score", pa.float32()),  # mean probability of the tags
            pa.field("entity_scores", pa.list_(pa.float32())),  # of each entity; null from a baseline, which has none
        ]
    ),
}

LATER = ("entity_scores",)  # columns of predictions that earlier releases did not write

# The column of the predictions that holds the model's answer for a row.
SAYS = dict.fromkeys(("single", "pair", "choice"), "label") | {
    "regression": "value",
    "span": "answer",
    "tagging": "entities",
}


def score_columns(labels: Sequence[str]) -> list[str]:
    """The columns of the labels' probabilities beside a prediction: the labels; a name that is taken gets `score_`."""
    columns = []
    for label in labels:
        column = label
        while column in ("label", "score") or (column != label and column in labels):
            column = f"score_{column}"
        columns.append(column)
    return columns


def check_trained(kind: str) -> None:
    """Raise UsageError for a kind of rows that no model predicts."""
    if kind not in PREDICTIONS:
        raise UsageError(f"rows of kind {kind} are for pretraining; models predict {', '.join(PREDICTIONS)}")


@cache  # a service asks for each request
def encoded(kind: str, vocab_size: int) -> pa.Schema:
    """encoded/<name>/<split>.parquet: token ids, ragged, with special tokens and without padding.

    `length` is the number of tokens of a row, summed over its choices or texts. token_type_ids are 0 for the first
    `first_length` tokens and 1 after them. `starts` and `ends` are characters of the row's context (span) or text
    (tagging); all other tokens have 0, 0.
    """
    token = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    ids, count, position = pa.list_(token), pa.uint32(), pa.int32()
    several = kind in ("choice", "positive_pair")
    fields = [_ID, pa.field("input_ids", pa.list_(ids) if several else ids, nullable=False), ("length", count)]
    places = [("starts", pa.list_(count)), ("ends", pa.list_(count))]
    more: dict[str, list[tuple[str, pa.DataType]]] = {
        "single": [("first_length", count), ("label", position)],
        "pair": [("first_length", count), ("label", position)],
        "regression": [("first_length", count), ("label", pa.float32())],
        "choice": [("first_lengths", pa.list_(count)), ("label", position)],
        # one row per window of the context; positions are 0, 0 ([CLS]) where no answer lies in the window
        "span": [
            ("window", count),
            ("first_length", count),
            ("start_position", position),
            ("end_position", position),
            *places,
        ],
        # one row per part of the text; -100 where a token carries no tag
        "tagging": [("part", count), ("labels", pa.list_(pa.int16())), *places],
        "text": [],
        "positive_pair": [],
    }
    return pa.schema([*fields, *more[kind]])
