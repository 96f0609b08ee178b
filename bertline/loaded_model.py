"""A model in this process: a registered version or a folder, with the project's one predictor."""

import re
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from bertline import answers, input_rows
from bertline.input_rows import InputRows
from pipelines.core import paths
from pipelines.core.errors import InputError, UsageError, shown
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.inference import encoder_runtimes
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import registry_refusals, version_here
from pipelines.tracking.ledger_events import CHAMPION

if TYPE_CHECKING:
    import numpy as np

    from bertline.occlusion import Explanation
    from pipelines.inference.fill_mask import Guess
    from pipelines.tracking.registered_version import Version

EMBEDDING = "embedding"  # the kind of a pretrained encoder
BATCH_ROWS = 2048  # rows that are encoded at once, which bounds memory
NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:@([A-Za-z0-9_][A-Za-z0-9_.-]*))?")


def load(model: str | Path, runtime: str = "", threads: int = 0, precision: str = "fp32") -> "LoadedModel":
    """See `bertline.load`."""
    if is_folder(model):
        return LoadedModel(Path(model), None, runtime, threads, precision)
    opened = version_here.read(*_name_and_alias(str(model)), runtime)
    registered, folder = opened or _by_mlflow(str(model), runtime)
    return LoadedModel(folder, registered, runtime, threads, precision)


def is_folder(model: str | Path) -> bool:
    """Return whether `model` is a path, or the name of a folder here, and not that of a registered model."""
    return isinstance(model, Path) or not NAME.fullmatch(model) or Path(model).is_dir()


def version(model: str) -> "Version":
    """The registered version `NAME`, `NAME@ALIAS` or `NAME@NUMBER`. Raises InputError if there is none."""
    name, alias = _name_and_alias(model)
    registry_refusals.of_version(name, alias)  # before MLflow is imported, which takes seconds
    from pipelines.tracking import registry

    return registry.labelled(name, alias)


def _name_and_alias(model: str) -> tuple[str, str]:
    """The parts of `NAME`, `NAME@ALIAS` or `NAME@NUMBER`."""
    parts = NAME.fullmatch(model)
    if not parts:
        raise UsageError(f"{model}: a registered model is written NAME, NAME@ALIAS or NAME@NUMBER")
    return parts[1], parts[2] or CHAMPION


def _by_mlflow(model: str, runtime: str) -> "tuple[Version, Path]":
    registered = version(model)
    return registered, _folder_of(registered, runtime)


def _folder_of(version: "Version", runtime: str) -> Path:
    from pipelines.tracking import registry

    return registry.folder(version, runtime)


def require_threads(threads: object) -> None:
    """Raise UsageError for no number of threads."""
    if not isinstance(threads, Integral) or threads < 0:
        raise UsageError(f"threads: {shown(threads)}; a whole number from 0 is expected")


class LoadedModel:
    """A model that answers rows of its kind.

    Attributes:
        folder: the folder that it was opened from.
        kind: single, pair, regression, span, tagging or choice; "embedding" for a pretrained encoder.
        labels: the names of its labels, in the order of their probabilities.
        name, version: of a registered model; "" and None for a folder.
    """

    def __init__(
        self,
        folder: Path,
        registered: "Version | None" = None,
        runtime: str = "",
        threads: int = 0,
        precision: str = "fp32",
    ) -> None:
        require_threads(threads)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; name a model folder, or a registered model as NAME@ALIAS")
        self.folder, self._registered = folder, registered
        self._options = (runtime, threads, precision)
        self.name = registered.name if registered else ""
        self.version = registered.version if registered else None
        opened = OpenedFolder(folder)
        is_tuned = (opened / TASK_FILE).is_file()
        self._predictor = Predictor.load(opened, runtime, True, threads, precision) if is_tuned else None
        if not (is_tuned or encoder_runtimes.is_exported(opened)):
            opened.require_config()
        self._encoder_options: dict[str, Any] = {"precision": precision}
        if not is_tuned:
            self._encoder_options |= {"runtime": runtime, "threads": threads}
        self.task = self._predictor.task if self._predictor else Task(folder.name, EMBEDDING)
        self._embedders: dict[tuple[str, bool], Any] = {}
        self._filler: Any = None  # a MaskFiller, once masks are to be filled

    @property
    def kind(self) -> str:
        return self.task.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.task.labels

    def __repr__(self) -> str:
        what = f"{self.name}@{self.version}" if self.name else str(self.folder)
        return f"<bertline model {what}: {self.kind}{f', {len(self.labels)} labels' if self.labels else ''}>"

    def __reduce__(self) -> Any:
        """Open the folder again, so that a process that gets a pickled model reads the weights itself."""
        return LoadedModel, (self.folder.absolute(), self._registered, *self._options)

    def predict(self, *inputs: Any, as_table: bool = False, **columns: str) -> Any:
        """The answer for each row, in plain Python; for a single row (a text, not a list) its answer.

        single, pair: a label. regression: a number. choice: the text of the choice. span: an `answers.Answer` with
        text, score, start, end. tagging: a list of `answers.Entity` with text, label, start, end. Raises InputError,
        with the row, for an input that is no text.

        Args:
            inputs: texts; pairs or questions with contexts or texts with choices, as two lists or a list of tuples;
                lists of words for tagging; or a data frame, an Arrow table or a list of dicts.
            as_table: return an Arrow table, as `table` does.
            columns: the names of a table's columns, such as text="title".
        """
        rows = self._rows(inputs, columns)
        predictions = self._predictions(rows.table)
        if as_table:
            return predictions
        return _one(answers.plain(predictions, rows.table, self.task), rows)

    def table(self, *inputs: Any, **columns: str) -> pa.Table:
        """The predictions (schema.PREDICTIONS) without ids, a row for each row of the inputs, as an Arrow table."""
        return self._predictions(self._rows(inputs, columns).table)

    def predict_proba(self, *inputs: Any, **columns: str) -> "np.ndarray":
        """The probability of each label, float32 (B, C), or (C,) for a single row; for single, pair and choice."""
        rows = self._rows(inputs, columns)
        probabilities = answers.probabilities(self._predictions(rows.table), self.task)
        return probabilities[0] if rows.single else probabilities

    def embed(self, texts: Any, pooling: str = "mean", normalize: bool = False, **columns: str) -> "np.ndarray":
        """The vector of each text, float32 (B, H), or (H,) for a single text; by the model's encoder.

        torch runs it, unless the folder is an encoder's export.

        Args:
            pooling: "mean" of all tokens, or "cls".
            normalize: make each vector's length 1.
        """
        import numpy as np

        rows = input_rows.rows(Task("text", EMBEDDING), (texts,), columns)
        embedder = self._embedder(pooling, normalize)
        texts = rows.table if rows.table.num_rows else pa.table({"text": [""]})  # its vector has the width of none
        parts = [embedder.predict(part).column("vector") for part in _parts(texts)]
        vectors = np.array([vector for part in parts for vector in part.to_pylist()], np.float32)
        return vectors[0] if rows.single else vectors[: rows.table.num_rows]

    @overload
    def fill_mask(self, texts: str, top: int = 5) -> "list[list[Guess]]": ...

    @overload
    def fill_mask(self, texts: Any, top: int = 5) -> "list[list[list[Guess]]]": ...

    def fill_mask(self, texts: Any, top: int = 5) -> "list[list[Guess]] | list[list[list[Guess]]]":
        """The `top` likeliest pieces for each [MASK] of each text, with probabilities; for a pretrained encoder."""
        from pipelines.inference.fill_mask import Guess, MaskFiller, require_mask

        rows = input_rows.rows(Task("text", EMBEDDING), (texts,))
        for number, text in enumerate(rows.table.column("text").to_pylist()):
            require_mask(text, "" if rows.single else f"row {number}: ")
        if self._filler is None:
            self._filler = MaskFiller.load(self._encoder_folder(), **self._encoder_options)
        guesses = self._filler.with_top(top).predict(rows.table).column("guesses").to_pylist()
        filled = [[[Guess(g["piece"], g["score"]) for g in mask] for mask in masks] for masks in guesses]
        return _one(filled, rows)

    def save(self, folder: str | Path) -> Path:
        """Copy the model's folder to `folder`, which must not exist or be empty; return it."""
        import shutil

        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target}: it exists; name a new folder")
        with paths.fresh_folder(target) as aside:
            shutil.copytree(self.folder, aside, dirs_exist_ok=True)
        return target

    def export(self, folder: str | Path) -> Path:
        """Write the model as ONNX into the new `folder`, which opens without torch; return it."""
        from pipelines.entries.export import Export
        from pipelines.export import onnx_export

        target = Path(folder)
        if target.exists():
            raise InputError(f"{target}: it exists; name a new folder")
        with paths.fresh_folder(target) as aside:
            onnx_export.export(self._encoder_folder(), aside, Export().opset)
        return target

    def explain(self, text: str, label: str = "") -> "Explanation":
        """The words of a text, each with the change of the label's probability when it is masked; for kind single.

        Args:
            label: the label to explain; by default the likeliest.
        """
        from bertline import occlusion

        return occlusion.explain(self._with_head(), text, label)

    def _with_head(self) -> Predictor:
        if not self._predictor:
            raise UsageError(f"{self.folder}: it is a pretrained encoder, which has no head; use embed or fill_mask")
        return self._predictor

    def _rows(self, inputs: tuple[Any, ...], columns: dict[str, str]) -> InputRows:
        self._with_head()
        return input_rows.rows(self.task, inputs, columns)

    def _predictions(self, table: pa.Table) -> pa.Table:
        """The predictions for all rows, without ids."""
        predictor = self._with_head()
        for name in table.column_names:
            _require_values(name, table.column(name))
        parts = _parts(table) or [table]
        return pa.concat_tables([predictor.predict(part) for part in parts])

    def _embedder(self, pooling: str, normalize: bool) -> Any:
        from pipelines.inference.embedding import Embedder

        if (pooling, normalize) not in self._embedders:
            opened = next(iter(self._embedders.values()), None)
            folder = self._encoder_folder()
            self._embedders[pooling, normalize] = (
                Embedder(opened.runtime, folder, pooling, normalize)
                if opened
                else Embedder.load(folder, pooling=pooling, normalize=normalize, **self._encoder_options)
            )
        return self._embedders[pooling, normalize]

    def _encoder_folder(self) -> Path:
        """The folder with an encoder: the model's weights for torch, or an encoder's export.

        A fine-tuned model's export has only its last layer's answers.
        """
        if self._registered:
            opened = version_here.read(self.name, str(self.version), "torch")
            return opened[1] if opened else _folder_of(self._registered, "torch")
        if (self.folder / "model.safetensors").is_file() or encoder_runtimes.is_exported(self.folder):
            return self.folder
        raise InputError(f"{self.folder}: it is an export, and holds no encoder; name the folder that it was made of")


def _require_values(name: str, column: pa.ChunkedArray) -> None:
    """Raise InputError for a missing value, with the row; parts of a long table would count theirs from 0."""
    if column.null_count:
        raise InputError(f"the column {name!r}: row {column.is_null().to_pylist().index(True)} has no text")


def _parts(table: pa.Table) -> list[pa.Table]:
    return [table.slice(start, BATCH_ROWS) for start in range(0, table.num_rows, BATCH_ROWS)]


def _one(values: list[Any], rows: InputRows) -> Any:
    return values[0] if rows.single else values
