"""Embed texts: a vector for each, from the encoder of any model folder."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.evaluation.predictions import Rows
from pipelines.inference import runtimes
from pipelines.inference.decoding import Outputs
from pipelines.inference.predictor import Predictor, inputs
from pipelines.text.encoding import sequence

KIND = "embedding"
POOLINGS = ("mean", "cls")
TEXT = Task("text", "single")  # each text is one sequence
FIELDS = pa.schema(
    [
        pa.field("vector", pa.list_(pa.float32()), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),  # the number of tokens that were read
    ]
)


class States(runtimes.Torch):
    """The runtime of an encoder in torch: its outputs are the last states of all tokens, (B, T, H)."""

    def _take(self, model: Any, task: Task) -> None:
        super()._take(model, task)
        if self.device.type == "cpu":  # twice the time of batches, but the same bits in any company
            self.batching = runtimes.ALONE

    def logits(self, inputs: runtimes.Inputs) -> np.ndarray:
        import torch

        from pipelines.acceleration import precision
        from pipelines.models import backbones

        encoder = backbones.encoder(self.model)
        with torch.inference_mode(), precision.autocast(self.precision):
            tensors = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
            return encoder(**backbones.inputs(encoder, tensors)).last_hidden_state.float().cpu().numpy()


class Embedder(Predictor):
    """An encoder with its tokenizer: takes rows with a column `text`, and returns a vector for each."""

    def __init__(
        self, runtime: runtimes.Runtime, folder: Folder, pooling: str = "mean", normalize: bool = False
    ) -> None:
        if pooling not in POOLINGS:
            raise UsageError(choices("pooling", pooling, POOLINGS))
        super().__init__(runtime, folder)
        self.pooling, self.normalize = pooling, normalize

    @classmethod
    def load(
        cls,
        folder: Folder,
        runtime: str = "",
        accelerate: bool = True,
        threads: int = 0,
        precision: str = runtimes.FP32,
        pooling: str = "mean",
        normalize: bool = False,
    ) -> "Embedder":
        """The encoder in `folder`, by torch; the folder may hold a pretrained or a fine-tuned model.

        Args:
            pooling: "mean", the mean of the states of all tokens, [CLS] and [SEP] too; or "cls", the state of [CLS].
            normalize: make each vector's length 1.
        """
        folder = OpenedFolder.of(folder)
        return cls(states(encoder_of(folder), folder, KIND, runtime, accelerate, precision), folder, pooling, normalize)

    def encode(self, rows: Rows) -> pa.RecordBatch:
        """The sequence of each text: [CLS] text [SEP], cut to `max_length`."""
        encoded, cut = sequence.encode(inputs(rows, TEXT), self.tokenizer, TEXT, self.max_length)
        self.truncated += cut
        return encoded

    def decode(self, rows: Rows, encoded: pa.RecordBatch, outputs: Outputs) -> pa.Table:
        """The vectors (FIELDS) for `rows`, given what `encode` and `forward` returned for them."""
        lengths = encoded.column("length").to_pylist()
        vectors = [self._pooled(tokens[:length]) for tokens, length in zip(outputs, lengths, strict=True)]
        columns = [pa.array(vectors, FIELDS.field("vector").type), pa.array(lengths, pa.int32())]
        answers = pa.Table.from_arrays(columns, schema=FIELDS)
        return answers.add_column(0, "id", rows.column("id")) if "id" in rows.schema.names else answers

    def _pooled(self, tokens: np.ndarray) -> np.ndarray:
        """The vector (H,) of a text, from the states (T, H) of its tokens, without padding."""
        vector = tokens[0] if self.pooling == "cls" else tokens.mean(axis=0, dtype=np.float64).astype(np.float32)
        return unit(vector) if self.normalize else vector


def unit(vector: Any) -> np.ndarray:
    """The vector, float32, divided by its length; a vector of length 0 stays as it is."""
    wide = np.asarray(vector, np.float64)
    return (wide / (np.linalg.norm(wide) or 1.0)).astype(np.float32)


def states(
    model: Any,
    folder: OpenedFolder,
    kind: str,
    runtime: str = "",
    accelerate: bool = True,
    precision: str = runtimes.FP32,
) -> States:
    """The runtime of the encoder inside `model`. Raises InputError if `runtime` is one that has no encoders.

    Args:
        kind: what the states are for: embedding or fill_mask.
    """
    from pipelines.acceleration import apply
    from pipelines.models import backbones

    if runtime not in ("", "torch"):
        raise InputError(f"{folder}: an encoder runs by torch, not by {runtime}")
    runtimes.require_precision(precision, "torch", folder)
    if accelerate:
        apply.to_predictions(backbones.encoder(model))
    opened = States.of(model, Task(folder.path.name, kind))
    opened.precision = precision
    return opened  # type: ignore[return-value]


def encoder_of(folder: OpenedFolder) -> Any:
    """The encoder of a pretrained or fine-tuned model's folder, in eval mode."""
    from transformers import AutoModel

    from pipelines.checkpoints import folder as model_folder
    from pipelines.checkpoints import formats, loading, pretrained
    from pipelines.models import backbones

    pretrained.family(folder.path)
    if (folder / TASK_FILE).is_file():
        return backbones.encoder(model_folder.load_tuned(folder)[0])
    form = formats.of_config(folder.config)
    model = form.load(folder, AutoModel) if form.name else loading.with_encoder(AutoModel, folder)[0]
    return backbones.encoder(model).eval()
