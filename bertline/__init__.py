"""The Python door: load a model and ask it, train one from a data frame, score a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import InputError, UsageError

if TYPE_CHECKING:  # loaded where they are used: `import bertline` takes no library with it
    from bertline.loaded_model import LoadedModel
    from bertline.training_frame import TrainedModel

__all__ = ["InputError", "UsageError", "load", "score", "train"]


def load(model: str | Path, runtime: str = "", threads: int = 0, precision: str = "fp32") -> "LoadedModel":
    """The model of a folder, or a registered version: `NAME` (its champion), `NAME@ALIAS` or `NAME@NUMBER`.

    An exported folder is opened by ONNX Runtime, without torch. A pretrained encoder can embed texts and fill masks.
    Raises InputError if there is no such model, or if it cannot be opened.

    Args:
        runtime: "onnx" or "torch"; by default that of the version's tag, or of the folder.
        threads: of one call in ONNX Runtime; 0: as many as there are cores.
        precision: "fp32"; or "bf16" for torch, whose scores are less exact. It is meant for GPUs.
    """
    from bertline import loaded_model

    return loaded_model.load(model, runtime, threads, precision)


def train(frame: Any, text: str = "text", label: str = "label", **options: Any) -> "TrainedModel":
    """Fine-tune an encoder on a data frame, an Arrow table or a list of dicts; return the model with its report.

    Args:
        text: the column of texts.
        label: the column of labels, or of numbers to predict.
        options: see `bertline.training_frame.train`.
    """
    from bertline import training_frame

    return training_frame.train(frame, text, label, **options)


def score(model: str, source: str | Path, target: str | Path, prefix: str = "") -> int:
    """Score the rows of a Parquet file into another, or of a folder, CSV or JSONL into a folder; return their number.

    The names may begin with s3://; then the answers are always a folder.

    All columns are kept, and the predictions, the model's name and its version are added. A folder's job that was
    interrupted goes on.

    Args:
        model: a registered version: `NAME` (its champion) or `NAME@ALIAS`; for one Parquet file also `NAME@NUMBER`.
        prefix: of the added columns' names.
    """
    from bertline import scored_files

    return scored_files.score(model, source, target, prefix)
