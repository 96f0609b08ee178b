"""The Arrow schemas that pass between stages, one a task kind."""

import pyarrow as pa

_ID = pa.field("id", pa.string(), nullable=False)
_TEXT = pa.field("text", pa.string(), nullable=False)
_LABEL = pa.field("label", pa.string())  # null where the split has no labels

# rows/<task>/<split>.parquet: readable
ROWS: dict[str, pa.Schema] = {
    "single": pa.schema([_ID, _TEXT, _LABEL]),
    "pair": pa.schema([_ID, _TEXT, pa.field("text_pair", pa.string(), nullable=False), _LABEL]),
    "text": pa.schema([_ID, _TEXT]),
}

# What a person sends to be predicted: the rows without their label.
INPUTS: dict[str, list[str]] = {
    kind: [name for name in schema.names if name not in ("id", "label")] for kind, schema in ROWS.items()
}

# predictions/<run>/<split>.parquet: one row for each input row, in its order
PREDICTIONS: dict[str, pa.Schema] = {
    kind: pa.schema(
        [
            _ID,
            pa.field("label", pa.string(), nullable=False),
            pa.field("score", pa.float32(), nullable=False),  # probability of `label`
            pa.field("scores", pa.list_(pa.float32()), nullable=False),  # of every label, in task.labels' order
        ]
    )
    for kind in ("single", "pair")
}


def encoded(kind: str, vocab_size: int) -> pa.Schema:
    """encoded/<name>/<split>.parquet: token ids, ragged, with their special tokens and no padding."""
    token = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    fields = [_ID, pa.field("input_ids", pa.list_(token), nullable=False), pa.field("length", pa.uint32())]
    if kind in ("single", "pair"):
        # token_type_ids are 0 for the first `first_length` tokens and 1 after them
        fields += [pa.field("first_length", pa.uint32()), pa.field("label", pa.int32())]
    return pa.schema(fields)
