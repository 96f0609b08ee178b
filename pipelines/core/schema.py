"""The Arrow schemas that pass between stages, one a task kind."""

import pyarrow as pa

from pipelines.core.errors import UsageError

_ID = pa.field("id", pa.string(), nullable=False)
_TEXT = pa.field("text", pa.string(), nullable=False)
_LABEL = pa.field("label", pa.string())  # null where the split has no labels

ANSWERS = pa.list_(pa.struct([("text", pa.string()), ("start", pa.int32())]))  # start: character of the context
ENTITIES = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]))  # characters


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False)


# rows/<task>/<split>.parquet: readable. What is to be predicted is null where a split has no labels.
ROWS: dict[str, pa.Schema] = {
    "single": pa.schema([_ID, _TEXT, _LABEL]),
    "pair": pa.schema([_ID, _TEXT, _text("text_pair"), _LABEL]),
    "regression": pa.schema([_ID, _TEXT, _text("text_pair"), pa.field("label", pa.float64())]),
    "span": pa.schema([_ID, _text("question"), _text("context"), pa.field("answers", ANSWERS)]),  # []: no answer
    "tagging": pa.schema([_ID, _TEXT, pa.field("entities", ENTITIES)]),
    "choice": pa.schema([_ID, _TEXT, pa.field("choices", pa.list_(pa.string()), nullable=False), _LABEL]),
    "text": pa.schema([_ID, _TEXT]),  # to pretrain on, as is the next
    "matched": pa.schema([_ID, _TEXT, _text("text_pair")]),  # two texts that belong together: a title and a passage
}
# The column that is to be predicted.
TARGETS = {"span": "answers", "tagging": "entities"} | dict.fromkeys(
    ("single", "pair", "regression", "choice"), "label"
)

# The metrics that can rank models, the usual one first; f1 is of the second of two labels.
METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("single", "pair", "choice"), ("accuracy", "macro_f1", "matthews", "f1")),
    "regression": ("pearson", "spearman"),
    "span": ("f1", "exact"),
    "tagging": ("f1", "precision", "recall"),
}

# What a person sends to be predicted: the rows without their target.
INPUTS: dict[str, list[str]] = {
    kind: [name for name in schema.names if name not in ("id", TARGETS.get(kind))] for kind, schema in ROWS.items()
}


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
            _said("answer", pa.string()),  # empty where the model says that there is none
            _said("start", pa.int32()),  # character of the context; that of `best` where there is no answer
            _said("score", pa.float32()),  # probability of the answer among the likeliest
            _said("best", pa.string()),  # the likeliest span, whether or not it is the answer
            _said("no_answer", pa.float32()),  # by how much the logits prefer none to `best`
        ]
    ),
    "tagging": pa.schema(
        [_ID, _said("entities", ENTITIES), _said("score", pa.float32())]  # mean probability of the tags
    ),
}


def check_trained(kind: str) -> None:
    """Refuse a kind of rows that no model predicts."""
    if kind not in PREDICTIONS:
        raise UsageError(f"rows of kind {kind} are for pretraining; there are models for {', '.join(PREDICTIONS)}")


def encoded(kind: str, vocab_size: int) -> pa.Schema:
    """encoded/<name>/<split>.parquet: token ids, ragged, with their special tokens and no padding.

    `length` counts a row's tokens, over all of its choices or texts. token_type_ids are 0 for the first `first_length` tokens
    and 1 after them. Offsets (`starts`, `ends`) are characters of the row's context (span) or text (tagging), and 0, 0
    for the tokens of neither.
    """
    token = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    ids, count, position = pa.list_(token), pa.uint32(), pa.int32()
    several = kind in ("choice", "matched")
    fields = [_ID, pa.field("input_ids", pa.list_(ids) if several else ids, nullable=False), ("length", count)]
    places = [("starts", pa.list_(count)), ("ends", pa.list_(count))]
    more: dict[str, list] = {
        "single": [("first_length", count), ("label", position)],
        "pair": [("first_length", count), ("label", position)],
        "regression": [("first_length", count), ("label", pa.float32())],
        "choice": [("first_lengths", pa.list_(count)), ("label", position)],
        # a window of the context each; 0, 0 (its [CLS]) where no answer lies in it, null where none is known
        "span": [
            ("window", count),
            ("first_length", count),
            ("start_position", position),
            ("end_position", position),
            *places,
        ],
        # a part of the text each; -100 where a token does not carry a tag
        "tagging": [("part", count), ("labels", pa.list_(pa.int16())), *places],
        "text": [],
        "matched": [],
    }
    return pa.schema([*fields, *more[kind]])
