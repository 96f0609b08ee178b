"""The settings that `bertline new` chooses, by kind, language and number of rows: one table to read and to correct."""

from typing import Any

ENCODERS = {"ja": "encoders/mini-ja", "en": "encoders/mini-en"}
# tokens per character of text at most, by the vocabularies of these encoders; room for [CLS] and [SEP] comes on top
TOKENS_PER_CHARACTER = {"ja": 0.8, "en": 0.4}
LENGTHS = (32, 64, 128, 256)
SPAN_LENGTH = 384  # a window of a context, as in BERT's run_squad
ENOUGH_FOR_DEV = 300  # rows, from which some are set aside to choose the best weights
# kind -> settings of its training
SETTINGS: dict[str, dict[str, Any]] = {
    "single": {"pooling": "mean", "batch_size": 16, "learning_rate": 5.0e-4},
    "pair": {
        "head": "mlp",
        "pooling": "compare",
        "features": "weighted_sum",
        "batch_size": 16,
        "learning_rate": 5.0e-4,
    },
    "regression": {
        "head": "mlp",
        "pooling": "compare",
        "features": "weighted_sum",
        "batch_size": 16,
        "learning_rate": 5.0e-4,
    },
    "tagging": {  # the states of all layers; on 100 sentences of Wikipedia the family's own head learns nothing
        "head": "bilstm",
        "features": "weighted_sum",
        "batch_size": 16,
        "learning_rate": 1.0e-4,
        "head_learning_rate": 2.0e-3,
    },
    "span": {"batch_size": 16, "learning_rate": 3.0e-4},
    "choice": {"batch_size": 16, "learning_rate": 2.0e-4},
}
# rows at most -> epochs: a small encoder needs some hundred steps before it has learned anything
EPOCHS = ((200, 20), (500, 12), (2_000, 8), (10_000, 4))
EPOCHS_OF_MANY = 2
MORE_EPOCHS = {"tagging": 2, "span": 2}  # kind -> times as many: every token of a text is an answer of its own


def finetune(kind: str, language: str, rows: int) -> dict[str, Any]:
    """The settings of a training on this many rows."""
    epochs = next((number for most, number in EPOCHS if rows <= most), EPOCHS_OF_MANY)
    return {"encoder": encoder(language), "epochs": epochs * MORE_EPOCHS.get(kind, 1), **SETTINGS[kind]}


def encoder(language: str) -> str:
    return ENCODERS.get(language, ENCODERS["en"])


def max_length(kind: str, language: str, characters: int) -> int:
    """The tokens of a sequence that hold a text of this many characters, up to the largest of LENGTHS."""
    if kind == "span":
        return SPAN_LENGTH
    tokens = characters * TOKENS_PER_CHARACTER.get(language, 0.8) + 3
    return next((length for length in LENGTHS if length >= tokens), LENGTHS[-1])
