"""A model that the service answers with: a version, its predictor and its queue."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core import memory, schema
from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.inference import embedding, encoder_runtimes, fill_mask
from pipelines.inference import predictor as predictors
from pipelines.inference.cascade_watch import CascadeWatch
from pipelines.inference.predictor import Predictor
from pipelines.inference.receipts import AnsweringModel, Receipt, Signer
from pipelines.inference.runtimes import ONNX_FILE, Onnx
from pipelines.measurement import row_exactness
from pipelines.serving import limits
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.row_batcher import RowBatcher
from pipelines.serving.side_versions import Canary, Shadow
from pipelines.serving.trial import Trial
from pipelines.tracking import registry

OF_ENCODERS = (embedding.KIND, fill_mask.KIND)  # kinds of a pretrained encoder, whose rows are texts
MAX_MASKS = 16  # in one text
MOST_BYTES_TWICE = 256 * 2**20  # of the weights of a model that is opened once more
SPARE = 8  # times their size must be free for that, as a new version is opened beside this one


class Answered(NamedTuple):
    """The predictions for the rows of a request, and the model that made all of them."""

    model: "ServedModel"
    predictions: list[dict[str, Any]]
    cut: list[int]  # the numbers of rows of which the model has read a part only


@dataclass(frozen=True)
class ServedModel:
    """One version, opened; a request is answered by one of them, whatever is swapped in meanwhile."""

    name: str  # its name in the service
    version: registry.Version
    predictor: Predictor
    batcher: RowBatcher
    row_difference: float  # the largest difference of a row's logits alone and in company; 0.0 if exact
    digest: str = ""  # of the files that it was opened from
    trial: Trial | None = field(default=None, compare=False)  # of a version that replaced another
    canary: Canary | None = field(default=None, compare=False)  # answers a share of this one's requests
    shadow: Shadow | None = field(default=None, compare=False)  # reads a share of them
    watch: CascadeWatch | None = field(default=None, compare=False)  # of a cascade
    alone: bool = field(default=False, compare=False)  # a request names this version: no other one answers it

    @classmethod
    def open(
        cls, name: str, version: registry.Version, folder: Path, runtime: str, threads: ModelThreads
    ) -> "ServedModel":
        """Open `version`, and measure how far a row depends on the rows beside it.

        Args:
            folder: `registry.folder(version, runtime)`.
            runtime: onnx or torch; by default that of the folder.
            threads: those that run the model.
        """
        # many sessions of one thread answer more requests than one session of many threads
        predictor = Predictor.load(folder, runtime, threads=1)
        parallel = _parallel(folder, predictor, threads.count)
        difference = row_exactness.largest_difference(predictor, sequences=8, partitions=2, alone=parallel)
        batcher = RowBatcher(predictor, threads, parallel)
        return cls(name, version, predictor, batcher, difference, watch=CascadeWatch.of(predictor, parallel))

    @classmethod
    def open_folder(cls, name: str, folder: Path, runtime: str, threads: ModelThreads) -> list["ServedModel"]:
        """Open a folder that is not registered; its version is 0.

        A fine-tuned model is one served model. A pretrained encoder is one of kind embedding and, if it has a
        masked-token head, another of kind fill_mask, with the name `filler(name)`. Both share their weights.
        """
        opened = _of_folder(folder, runtime)
        parallel = _parallel(folder, opened[0], threads.count)
        difference = row_exactness.largest_difference(opened[0], sequences=8, partitions=2, alone=parallel)
        versions = [registry.Version(served, 0, {}) for served in (name, filler(name))]
        return [
            cls(version.name, version, predictor, RowBatcher(predictor, threads, parallel), difference)
            for version, predictor in zip(versions, opened, strict=False)
        ]

    @property
    def task(self) -> Task:
        return self.predictor.task

    @property
    def inputs(self) -> list[str]:
        """The columns of a row."""
        return schema.INPUTS[self.task.kind]

    def reads_rows_of(self, other: "ServedModel") -> bool:
        """Return whether it takes the rows that `other` takes: of its kind, and with as many choices."""
        counts = [len(model.task.labels) if model.task.kind == "choice" else 0 for model in (self, other)]
        return (self.task.kind, self.inputs, counts[0]) == (other.task.kind, other.inputs, counts[1])

    def rows(self, columns: dict[str, list[Any]]) -> pa.RecordBatch:
        """The rows of a request, checked. Raises InputError for a wrong column or value."""
        if extra := sorted(set(columns) - set(self.inputs)):
            raise InputError(f"{self.version} takes {', '.join(self.inputs)}, but not {extra[0][:40]}")
        limits.check(columns)
        if len({len(values) for values in columns.values()}) > 1:
            raise InputError("the columns have different numbers of rows")
        task = embedding.TEXT if self.task.kind in OF_ENCODERS else self.task
        fields = schema.ROWS[task.kind]
        try:
            arrays = {name: pa.array(values, fields.field(name).type) for name, values in columns.items()}
        except (pa.ArrowException, TypeError):
            raise InputError("a column holds lists where text is expected, or text where lists are expected") from None
        if task.kind == "choice" or arrays.keys() != set(self.inputs):
            rows = predictors.inputs(pa.table(arrays), task).drop_columns(["id"])
        else:  # nothing else can be wrong, as `limits.check` has seen every value
            rows = pa.RecordBatch.from_arrays([arrays[name] for name in self.inputs], names=self.inputs)
        if self.task.kind == fill_mask.KIND:
            _check_masks(columns["text"])
        return rows

    def signed(self, signer: Signer, columns: dict[str, list[Any]], predictions: list[dict[str, Any]]) -> list[Receipt]:
        """The receipts of predictions that this version has made for rows; a job gives the same."""
        model = AnsweringModel(self.task.kind, self.version.name, self.version.version, self.digest)
        fields = schema.ROWS[self.task.kind]
        inputs = pa.table({name: pa.array(columns[name], fields.field(name).type) for name in self.inputs})
        return list(signer.receipts(model, inputs, predictions))

    async def predict(self, columns: dict[str, list[Any]], key: str = "") -> list[dict[str, Any]]:
        """The predictions for rows, in their order.

        They are rows of schema.PREDICTIONS without ids, or of `embedding.FIELDS` or `fill_mask.FIELDS`.

        Args:
            columns: the values of each column of the rows.
            key: whose request it is; requests of one key share their turn.

        Raises:
            InputError: a column or a value is wrong.
            BusyError: too many requests are waiting.
        """
        return (await self.batcher.predict(self.rows(columns), key)).predictions

    async def answer(self, columns: dict[str, list[Any]], key: str = "") -> Answered:
        """The predictions as by `predict`, by this version or by its canary; its shadow gets a copy."""
        canary = self.canary
        if canary and canary.takes(key):
            return await canary.answer(self, columns, key)
        start = time.perf_counter()
        answered = await self.answer_alone(columns, key)
        if canary:
            canary.note(time.perf_counter() - start, ours=False)
        if self.shadow:
            self.shadow.mirror(columns, answered)
        return answered

    async def answer_alone(self, columns: dict[str, list[Any]], key: str = "") -> Answered:
        """The predictions without canary and shadow. In its trial a version that fails is helped by the former one.

        A version that is named (`alone`) fails, and the former one only shows whether that counts.
        """
        former = self.trial.former_or_end() if self.trial else None
        if not self.trial or not former:
            return await self._answered(columns, key)
        self.trial.requests += 1
        try:
            return await self._answered(columns, key)
        except InputError:  # the request is wrong, or there are too many
            raise
        except Exception as error:  # of any type, as the runtime's own share no class
            try:
                answered = await former.answer(columns, key)
            except Exception:
                if self.alone:
                    raise error from None
                raise
            self.trial.count(error)
            if self.alone:
                raise
            return answered

    async def _answered(self, columns: dict[str, list[Any]], key: str) -> Answered:
        predictions, cut = await self.batcher.predict(self.rows(columns), key)
        return Answered(self, predictions, np.flatnonzero(cut).tolist())


def _parallel(folder: Path, predictor: Predictor, count: int) -> Predictor | None:
    """The model of `predictor` with `count` threads a call, for a request while there is no other.

    None if another runtime has these threads by itself, or the weights are too large to be in memory twice.
    """
    if predictor.runtime.name != Onnx.name or count == 1:
        return None
    size = sum(file.stat().st_size for file in folder.rglob(ONNX_FILE))
    if size > min(MOST_BYTES_TWICE, memory.free_bytes() / SPARE):
        return None
    return type(predictor).load(folder, "onnx", threads=count)


def filler(name: str) -> str:
    """The name of the model that fills masks, if `name` is an encoder with a masked-token head."""
    return f"{name}.{fill_mask.KIND}"


def _of_folder(path: Path, runtime: str) -> list[Predictor]:
    """The predictors of a folder: the first is of a fine-tuned model's kind, or embeds texts."""
    folder = OpenedFolder(path)
    if (folder / TASK_FILE).is_file():
        return [Predictor.load(folder, runtime, threads=1)]
    encoder = encoder_runtimes.load(folder, runtime, threads=1, masked=True)
    embedder = embedding.Embedder(encoder, folder)
    return [embedder, fill_mask.MaskFiller(encoder, folder)] if encoder.has_mask_head else [embedder]


def _check_masks(texts: list[str]) -> None:
    """Raise InputError for a text with no [MASK] or with too many."""
    for number, text in enumerate(texts):
        if not 0 < (count := text.count(fill_mask.MASK)) <= MAX_MASKS:
            raise InputError(f"text: row {number} has {count} {fill_mask.MASK}; 1 to {MAX_MASKS} are expected")
