"""compress: make a smaller model of a fine-tuned one."""

from pipelines.core import entries, params, paths, plugins, provenance, stage


def main(key: str) -> None:
    entry = params.entry("compress", key, entries.Compress)
    method = plugins.load("pipelines.compression.methods", entry.method)
    options = params.options(entry, method.Params, f"compress.{key}")
    from pipelines.models import folder
    from pipelines.text import tokenizer
    from pipelines.training.batches import Encoded, TaskData
    from pipelines.training.distributed import fitting

    teacher_folder, data = paths.model(entry.teacher), paths.encoded(entry.data)
    teacher, task = folder.load_tuned(teacher_folder)
    pad_id = tokenizer.load(teacher_folder).pad_id
    with fitting("compress", key, params.resources()) as fit, paths.fresh_folder(paths.model(key)) as out:
        model = method.compress(teacher, TaskData(Encoded.read(data, task.train), pad_id, task.kind), options, fit)
        folder.save(model, out, teacher_folder, task)
        provenance.write(out, "compress", entry.model_dump(), [teacher_folder, data], ("torch", "transformers"))


if __name__ == "__main__":
    stage.run("compress", main)
