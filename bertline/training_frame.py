"""Fine-tune an encoder on a data frame in this process, by the steps of the stages encode and finetune."""

import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from bertline import training_rows
from bertline.loaded_model import LoadedModel, require_threads
from pipelines.core import paths, schema, tables
from pipelines.core import threads as process_threads
from pipelines.core.errors import InputError, UsageError, choices, sentence
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.encode import Encode
from pipelines.entries.finetune import Finetune
from pipelines.evaluation import one_answer
from pipelines.evaluation.split import Split
from pipelines.text import encode_entry, tokenizer

ENCODERS = Path(__file__).resolve().parents[1] / "encoders"
DEFAULTS = {"ja": "mini-ja", "en": "mini-en"}  # language -> an encoder of this project
# what the small encoders learn well with, as in params.yaml; another encoder begins with the defaults of finetune
OF_DEFAULTS = {"pooling": "mean", "epochs": 8, "batch_size": 16, "learning_rate": 5e-4}
LENGTH = 128  # tokens of a sequence, unless the encoder takes fewer
JAPANESE = re.compile(r"[ぁ-ヿ㐀-鿿]")
TRAINING = threading.Lock()  # torch has one random generator a process: trainings in threads would share its numbers
NAME = "frame"  # the name of the task, and of the training in its messages


@dataclass(frozen=True)
class Report:
    """The result of a training.

    Attributes:
        dev_score: the metric on rows that the model has not seen; None without them. With `patience` they chose
            when training ended, so the score is a little too high.
        scores: all metrics on these rows.
        curve: (step, {"loss": ...}) of the training.
        warnings: sentences on what seems wrong.
    """

    encoder: str
    rows: int
    dev_rows: int
    metric: str
    dev_score: float | None
    scores: dict[str, float]
    curve: list[tuple[int, dict[str, float]]]
    warnings: list[str]

    def __str__(self) -> str:
        score = "no dev rows" if self.dev_score is None else f"dev {self.metric} {self.dev_score:.3f}"
        lines = [f"{score} on {self.dev_rows:,} rows; trained on {self.rows:,} rows from {self.encoder}"]
        return "\n".join([*lines, *self.warnings])


class TrainedModel(LoadedModel):
    """A model that `train` made. It is in a temporary folder until `save` copies it."""

    def __init__(self, place: Path, report: Report, threads: int) -> None:
        super().__init__(place / "model", threads=threads)
        self.report = report
        weakref.finalize(self, _remove, place, os.getpid())

    def __reduce__(self) -> Any:
        raise UsageError("a trained model is in a temporary folder; save it first, then load that folder")


def _remove(place: Path, process: int) -> None:
    """Remove a folder in the process that made it: the exit of a forked child leaves it to its parent."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)


def train(
    frame: Any,
    text: str = "text",
    label: str = "label",
    *,
    text_pair: str = "",
    kind: str = "",
    encoder: str | Path = "",
    language: str = "",
    dev: Any = 0.1,
    max_length: int = 0,
    seed: int = 1,
    threads: int = 0,
    **settings: Any,
) -> TrainedModel:
    """Fine-tune an encoder; the same rows, settings, seed and threads give the same model.

    Args:
        frame: a data frame, an Arrow table or a list of dicts.
        text, label, text_pair: columns; with `text_pair` the rows are pairs of texts.
        kind: single, pair or regression; by default pair with `text_pair`, and regression if labels have decimals.
        encoder: a model folder; by default the project's small encoder of the language.
        language: ja or en; by default that of the texts.
        dev: the share of rows to score the model on, a table of such rows, or 0 or None for none.
        max_length: tokens of a sequence; by default 128, or fewer if the encoder takes fewer.
        threads: of this process; 0 leaves them as they are.
        settings: other keys of a finetune entry, such as epochs, batch_size, learning_rate, patience.
    """
    task, rows = training_rows.read(frame, training_rows.Columns(text, label, text_pair), kind, dev, seed)
    language = language or _language(rows["train"])
    folder = OpenedFolder(Path(encoder) if encoder else _default(language))
    entry = _entry(task, folder, bool(encoder), {"seed": seed, **settings})
    place = Path(tempfile.mkdtemp(prefix="bertline-train-"))
    try:
        with TRAINING:
            report = _trained(place, task.with_(language=language), rows, entry, max_length, threads)
        return TrainedModel(place, report, threads)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _language(rows: pa.Table) -> str:
    """ja if most texts hold Japanese letters, else en."""
    texts = rows.column("text").to_pylist()[:1000]
    return "ja" if 2 * sum(bool(JAPANESE.search(text)) for text in texts) > len(texts) else "en"


def _default(language: str) -> Path:
    if language not in DEFAULTS:
        raise UsageError(f"{choices('encoder of the language', language, DEFAULTS)}; name a model folder in encoder")
    folder = ENCODERS / DEFAULTS[language]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a model folder in encoder")
    return folder


def _entry(task: Task, encoder: OpenedFolder, chosen: bool, settings: dict[str, Any]) -> Finetune:
    """The entry of the training. Raises UsageError for an unknown setting or a wrong value."""
    encoder.require_config()
    defaults = {} if chosen else OF_DEFAULTS
    held_out = {"dev": "dev"} if settings.get("patience") and "dev" in task.splits else {}
    fields = {**defaults, **settings, **held_out, "data": NAME, "encoder": str(encoder)}
    if unknown := sorted(fields.keys() - Finetune.model_fields.keys()):
        raise UsageError(f"train: {choices('setting', unknown[0], Finetune.model_fields.keys() - {'data', 'dev'})}")
    try:
        return Finetune.model_validate(fields)
    except ValidationError as invalid:
        raise UsageError(f"train: {sentence(invalid.errors()[0])}") from None


def _trained(
    place: Path, task: Task, rows: dict[str, pa.Table], entry: Finetune, max_length: int, threads: int
) -> Report:
    """Train in the folder `place`; only place/model is left there."""
    from pipelines.training import finetune_entry

    require_threads(threads)
    process_threads.use(threads)
    encoded = place / "encoded"
    _encode(place / "rows", encoded, task, rows, entry, max_length, threads)
    resources = Resources.model_validate({"threads": threads})
    with _plain_names():
        curve = finetune_entry.finetune("train", NAME, entry, place / "model", resources, encoded, _in(place / "fit"))
    report = _report(place / "model", encoded, task, rows, entry, curve)
    for name in ("rows", "encoded", "fit"):
        shutil.rmtree(place / name, ignore_errors=True)
    return report


def _encode(
    source: Path, encoded: Path, task: Task, rows: dict[str, pa.Table], entry: Finetune, max_length: int, threads: int
) -> None:
    """Write the rows as Parquet into `source`, and their ids into `encoded`."""
    source.mkdir()
    encoded.mkdir()
    for split, table in rows.items():
        tables.write(source / f"{split}.parquet", table.to_batches(), schema.ROWS[task.kind])
    task.save(source)
    positions = tokenizer.positions(OpenedFolder(Path(entry.encoder)).encoder_config)
    length = max_length or min(LENGTH, positions or LENGTH)
    try:
        settings = Encode(task=NAME, vocab=entry.encoder, max_length=length)
    except ValidationError as invalid:
        raise UsageError(f"train: {sentence(invalid.errors()[0])}") from None
    with _plain_names():
        encode_entry.encode(NAME, settings, encoded, threads or 1, source)


@contextmanager
def _plain_names() -> Iterator[None]:
    """Leave params.yaml out of errors about settings, which stand in no file here."""
    try:
        yield
    except UsageError as error:
        raise UsageError(re.sub(r"params\.yaml: (finetune|encode)\.frame\.?", "train: ", str(error))) from None


def _in(folder: Path) -> Any:
    """The `fits` of a training whose checkpoints are in `folder`, which no later training resumes."""

    @contextmanager
    def fits(stage: str, key: str, resources: Resources, depends: str) -> Iterator[Any]:
        from pipelines.training.distributed import Fitting

        (folder / "checkpoints").mkdir(parents=True)
        yield Fitting(folder / "checkpoints", folder / "frozen", resources, depends)

    return fits


def _report(
    model: Path, encoded: Path, task: Task, rows: dict[str, pa.Table], entry: Finetune, curve: list[Any]
) -> Report:
    from pipelines.inference.predictor import Predictor

    scores: dict[str, float] = {}
    warnings: list[str] = []
    if "dev" in rows:
        split, predictor = Split(paths.scored_rows(encoded, "dev"), task), Predictor.load(model)
        scores = split.score(predictor.predict)["metrics"]
        says = schema.SAYS[task.kind]
        answers = predictor.predict(rows["dev"]).column(says).to_pylist()
        if same := one_answer.only(answers):
            advice = "try more epochs, another learning_rate or more rows"
            warnings.append(f"{one_answer.sentence(same[0], len(answers))}; {advice}")
    dev_rows = rows["dev"].num_rows if "dev" in rows else 0
    score = scores.get(task.metric)
    return Report(entry.encoder, rows["train"].num_rows, dev_rows, task.metric, score, scores, curve, warnings)
