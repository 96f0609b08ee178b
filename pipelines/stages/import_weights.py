"""import_weights: turn a published checkpoint into a model folder."""

from pathlib import Path

from pipelines.core import params, paths, provenance, stage
from pipelines.entries.import_weights import ImportWeights


def main(key: str) -> None:
    entry = params.entry("import_weights", key, ImportWeights)
    from pipelines.checkpoints import published

    with paths.fresh_folder(paths.model(key)) as out:
        published.fetch(entry.source, entry.revision, out)
        local = [Path(entry.source)] if Path(entry.source).is_dir() else []
        provenance.write(out, "import_weights", entry.model_dump(), local, ("transformers",))


if __name__ == "__main__":
    stage.run("import_weights", main)
