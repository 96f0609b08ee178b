"""import_weights: bring a published checkpoint into the model-folder format."""

from pathlib import Path

from pipelines.core import entries, params, paths, provenance, stage


def main(key: str) -> None:
    entry = params.entry("import_weights", key, entries.ImportWeights)
    from pipelines.models import pretrained

    with paths.fresh_folder(paths.model(key)) as out:
        pretrained.fetch(entry.source, out)
        local = [Path(entry.source)] if Path(entry.source).is_dir() else []
        provenance.write(out, "import_weights", entry.model_dump(), local, ("transformers",))


if __name__ == "__main__":
    stage.run("import_weights", main)
