"""Run one entry of compress: its method makes a smaller model from a teacher."""

import shutil
from pathlib import Path
from typing import Any

from pipelines.checkpoints import folder, vocabulary
from pipelines.compression import claims, variant
from pipelines.compression.context import Context, Data
from pipelines.core import code_digest, params, paths, plugins, provenance
from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.progress import say
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.compress import Compress
from pipelines.models import backbones
from pipelines.text import protocol
from pipelines.text import tokenizer as text_tokenizer
from pipelines.training import checks, dev_scores
from pipelines.training.batches import Encoded
from pipelines.training.distributed import fitting


def compress(key: str, entry: Compress, target: Path, resources: Resources) -> None:
    """Run the entry's method and write its result as the model folder `target`."""
    method = plugins.load("pipelines.compression.methods", entry.method)
    options = params.options(entry, method.Params, f"compress.{key}", **entry.shared())
    if getattr(options, "patience", 0) and not entry.dev:
        raise UsageError(f"params.yaml: compress.{key}.patience: {options.patience}; it needs a split: set dev")
    source, data = OpenedFolder(paths.model(entry.teacher)), paths.encoded(entry.data)
    teacher, task = folder.load_tuned(source)
    claims.check(key, method, teacher, task, entry.teacher)
    tokenizer = text_tokenizer.load(source)
    data_task = Task.load(data)
    _check_rows(key, entry, task, data_task)
    _check_vocabulary(key, entry, data, tokenizer)
    read = f"{backbones.digest(teacher)} {provenance.digest(data)}"
    plugin = f"methods/{entry.method}"
    cache = _cache(key, f"{entry.method} {read} {code_digest.of('compress', plugin)}")
    dev = Encoded.read(data, entry.dev) if entry.dev else None
    with fitting("compress", key, resources, f"{read} {entry.dev}", plugin) as fit, paths.fresh_folder(target) as out:
        context = Context(
            teacher=teacher,
            task=task,
            data=Data(Encoded.read(data, data_task.train), dev, tokenizer.pad_id),
            tokenizer=tokenizer,
            watch=dev_scores.on_split(data, entry.dev, task) if entry.dev else None,
            seed=entry.seed,
            fit=fit,
            cache=cache,
            source=source,
        )
        model = method.compress(context, options)
        folder.save(model, out, tokenizer_folder(context), task)
        provenance.write(out, "compress", entry.model_dump(), [source.path, data], ("torch", "transformers"))
        step = {"run": key, "method": entry.method, "params": options.model_dump(mode="json")}
        variant.write(out, model, task.kind, step, entry.teacher, source.path, context.found)
    shutil.rmtree(cache)


def tokenizer_folder(context: Context) -> Path:
    """The folder with the result's tokenizer: the method's own if it wrote one, else the teacher's."""
    shortened = context.own_tokenizer
    return shortened if (shortened / protocol.CONFIG).is_file() else context.source.path


def _cache(key: str, of: str) -> Path:
    """The folder in which a method stores files, such as the teacher's outputs.

    It is emptied first if a killed run with another method, teacher or rows left files there.
    """
    folder = paths.teacher_outputs(key)
    digest_file = folder / "digest"
    if not digest_file.is_file() or digest_file.read_bytes() != of.encode():
        if folder.is_file():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        digest_file.write_text(of)
    return folder


def _check_rows(key: str, entry: Compress, task: Task, data_task: Task) -> None:
    """Raise UsageError unless the rows' `data_task` has the kind and labels of the teacher's `task`, and the splits."""
    if (data_task.kind, data_task.labels) != (task.kind, task.labels):
        raise UsageError(
            f"params.yaml: compress.{key}.data: {entry.data} has rows of task {data_task.name}, kind {data_task.kind}; "
            f"the teacher learned {task.name}, kind {task.kind}, or other labels"
        )
    if data_task.name != task.name:  # no error: one corpus may be prepared twice
        say(f"compress {key}: the rows of {entry.data} are of task {data_task.name}; the teacher learned {task.name}")
    checks.dev(f"compress.{key}", entry.dev, data_task)
    if "train" not in data_task.splits:
        raise UsageError(
            f"params.yaml: compress.{key}.data: {entry.data} has no split train, but {', '.join(data_task.splits)}"
        )


def _check_vocabulary(key: str, entry: Compress, data: Path, tokenizer: Any) -> None:
    """Raise UsageError unless the rows are encoded with the teacher's vocabulary, which may be a pruned one."""
    if not vocabulary.same(tokenizer, text_tokenizer.load(data / "tokenizer")):
        raise UsageError(
            f"params.yaml: compress.{key}.data: {entry.data} is encoded with another vocabulary than that of "
            f"{entry.teacher}; encode the rows with it: vocab: {paths.model(entry.teacher)}"
        )
