"""The runtimes of a fine-tuned model: numpy inputs (B, T) to float32 logits, shaped as by models.heads.outputs."""

import json
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from pipelines.core import container, cpu
from pipelines.core.errors import InputError, UsageError, choices, one_line, shown
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.core.threads import used as used_threads
from pipelines.inference import onnx_precise

Inputs = dict[str, np.ndarray]  # int64 input_ids, attention_mask and, if the model takes it, token_type_ids
ONNX_FILE = "model.onnx"
CASCADE_FILE = "cascade.json"  # of a folder with two exports, see pipelines.inference.cascade
LOGITS = "logits"  # an output of an exported model
FEATURES = "features"  # another, (B, F), if its head reads one vector a row
VECTOR_KINDS = ("single", "pair", "regression")  # whose heads read one vector a row
# How sequences are batched so that the bits of an answer do not depend on the others in its batch: in any number, two
# or more (a single one runs twice), or one at a time.
ANY, PAIRS, ALONE = "any", "pairs", "alone"
FP32, BF16 = PRECISIONS = ("fp32", "bf16")
BATCH_TOKENS = 4096  # the most tokens of a padded batch, which bounds its memory
GPU_BATCH_TOKENS = 65_536  # a GPU waits for the host between small batches


class Runtime(Protocol):
    name: str  # a key of RUNTIMES
    task: Task
    positions: int  # the longest input in tokens
    vocab_size: int  # the number of ids with an embedding; 0 if unknown
    batching: str  # ANY, PAIRS or ALONE
    batch_tokens: int  # the most tokens of a padded batch

    def logits(self, inputs: Inputs) -> np.ndarray: ...


class Torch:
    """A model folder in torch, on a GPU if there is one.

    On a GPU in bf16, BERT-like families compute without padding (see `acceleration.varlen_attention`).
    """

    name = "torch"
    precision = FP32

    def __init__(self, folder: Folder, accelerate: bool = True, threads: int = 0, precision: str = FP32) -> None:
        from pipelines.acceleration import apply
        from pipelines.checkpoints import folder as model_folder

        self._take(*model_folder.load_tuned(folder))
        self.precision = precision
        if accelerate:
            self.accelerations = apply.to_predictions(self.model, self.device.type == "cuda" and precision == BF16)

    @classmethod
    def of(cls, model: Any, task: Task) -> Self:
        """Wrap a model that is in memory already."""
        runtime = cls.__new__(cls)
        runtime._take(model, task)
        return runtime

    def _take(self, model: Any, task: Task) -> None:
        import torch

        from pipelines.models import backbones
        from pipelines.models.quantization import int8

        self.model, self.task = model, task
        self.positions = backbones.max_positions(self.model)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model.to(self.device)
        self.batch_tokens = GPU_BATCH_TOKENS if self.device.type == "cuda" else BATCH_TOKENS
        self.token_types = backbones.takes_types(self.model)
        self.vocab_size = int(backbones.encoder(self.model).config.vocab_size)
        # in a batch, the last bits of a float may round an input of an int8 layer to another step
        self.batching = ALONE if any(isinstance(part, int8.Int8Linear) for part in self.model.modules()) else ANY

    def logits(self, inputs: Inputs) -> np.ndarray:
        import torch

        try:
            return self._logits(inputs)
        except torch.OutOfMemoryError:  # of a GPU; the parts of the batch need less
            half = len(inputs["input_ids"]) // 2
            if not half:
                raise
            torch.cuda.empty_cache()
        parts = ({name: array[part] for name, array in inputs.items()} for part in (slice(half), slice(half, None)))
        return np.concatenate([self.logits(part) for part in parts])

    def _logits(self, inputs: Inputs) -> np.ndarray:
        import torch

        from pipelines.acceleration import precision, sequence_packing
        from pipelines.acceleration.varlen_attention import sent
        from pipelines.models import heads

        with torch.inference_mode(), precision.autocast(self.precision):
            here = {name: torch.from_numpy(array) for name, array in inputs.items()}
            there = {name: sent(tensor, self.device) for name, tensor in here.items()}
            if self.device.type == "cuda":
                sequence_packing.expect(self.model, there, here)
            return heads.outputs(self.model, self.task.kind, there).float().cpu().numpy()


class Onnx:
    """An exported folder in ONNX Runtime, on the CPU, in the precision of its graph.

    `accelerate` has no effect, because ONNX Runtime optimizes by itself.
    """

    name = "onnx"
    batch_tokens = BATCH_TOKENS
    output = LOGITS  # of the graph

    def __init__(self, folder: Folder, accelerate: bool = True, threads: int = 0, precision: str = FP32) -> None:
        import onnxruntime

        path = folder / ONNX_FILE
        if not path.is_file():
            raise InputError(f"{folder}: no {ONNX_FILE}; the export stage writes one")
        self.task = self._task(OpenedFolder.of(folder))
        options = onnxruntime.SessionOptions()
        # ONNX Runtime has its own threads, and ignores OMP_NUM_THREADS
        options.intra_op_num_threads = threads or used_threads() or container.cores()
        if threads == 1:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.force_spinning_stop", "1")  # between two calls
        self._options = options
        try:
            self.session = self.open_session(onnx_precise.model(path) if cpu.saturates() else path)
            facts = self.session.get_modelmeta().custom_metadata_map
            known = {name: json.loads(facts[name]) for name in ("positions", "vocab_size", "kind", "labels")}
        except Exception as error:  # onnxruntime's own share no class
            raise InputError(f"{path}: not an exported model ({one_line(error)}); was it cut off?") from None
        for name, value in (("kind", self.task.kind), ("labels", [*self.task.labels])):
            if value != known[name]:
                raise InputError(
                    f"{folder}: {TASK_FILE} has the {name} {shown(value)}, {ONNX_FILE} {shown(known[name])}"
                )
        self.positions, self.vocab_size = known["positions"], known["vocab_size"]
        self.batching = json.loads(facts.get("batching", "null")) or PAIRS  # older exports lack it
        self._names = {node.name for node in self.session.get_inputs()}
        self._require_runs(path)

    def _task(self, folder: OpenedFolder) -> Task:
        return folder.task

    def _require_runs(self, path: Path) -> None:
        """Raise InputError if the model does not run or its logits are not finite, before a user's first row does."""
        for name, least in (("positions", 2), ("vocab_size", 0)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise InputError(f"{path}: its metadata has {name} {shown(value)}; {least} or more is expected")
        ids = np.ones((2, min(4, self.positions)), np.int64)
        try:
            logits = self.logits({"input_ids": ids, "attention_mask": ids, "token_type_ids": np.zeros_like(ids)})
        except Exception as error:  # onnxruntime's own share no class
            raise InputError(f"{path}: it cannot be run ({one_line(error)}); was it changed?") from None
        if not np.isfinite(logits).all():
            raise InputError(f"{path}: it returns NaN or infinity; its weights are damaged, export it again")

    def open_session(self, model: Path | bytes) -> Any:
        """A session of ONNX Runtime with the options of this one, for a file or a serialized model."""
        import onnxruntime

        return onnxruntime.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])

    def logits(self, inputs: Inputs) -> np.ndarray:
        return self.outputs(inputs, self.output)[0]

    def outputs(self, inputs: Inputs, *names: str) -> list[np.ndarray]:
        """The outputs of these names."""
        return self.session.run(names, {name: array for name, array in inputs.items() if name in self._names})


RUNTIMES: dict[str, type[Torch] | type[Onnx]] = {"torch": Torch, "onnx": Onnx}


def load(
    folder: Folder, runtime: str = "", accelerate: bool = True, threads: int = 0, precision: str = FP32
) -> Runtime:
    """Load the model in `folder`.

    Args:
        runtime: "torch" or "onnx"; by default onnx if the folder has an export or is a cascade of two, else torch.
        accelerate: let torch use the optimizations of pipelines.acceleration.
        precision: "fp32", or "bf16" for torch where the machine has instructions for it.
        threads: of one call in ONNX Runtime; by default those of this process. Several calls may run at the same time.
    """
    composed = (folder / CASCADE_FILE).is_file()
    runtime = runtime or ("onnx" if composed or (folder / ONNX_FILE).is_file() else "torch")
    if runtime not in RUNTIMES:
        raise UsageError(choices("runtime", runtime, RUNTIMES))
    require_precision(precision, runtime, folder)
    if composed and runtime == Onnx.name:
        from pipelines.inference.cascade import Cascade

        return Cascade(OpenedFolder.of(folder).path, threads)
    return RUNTIMES[runtime](folder, accelerate, threads, precision)


def require_finite(outputs: np.ndarray) -> None:
    """Raise InputError if an output is NaN or infinite: a weight is infinite, or a sum of large ones overflowed."""
    if not np.isfinite(outputs).all():
        raise InputError("the model returns NaN or infinity: its weights are damaged, or training diverged")


def require_precision(precision: str, runtime: str, folder: Folder) -> None:
    """Raise UsageError if there is no such precision, or if `runtime` does not have it."""
    if precision not in PRECISIONS:
        raise UsageError(choices("precision", precision, PRECISIONS))
    if precision == BF16 and runtime != "torch":
        raise UsageError(f"{folder}: the runtime {runtime} has no bf16; name the runtime torch and a model's folder")
