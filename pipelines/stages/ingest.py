"""ingest: fetch a corpus, and check every file against the size and digest that its source declares."""

import shutil
from pathlib import Path

from pipelines.core import params, paths, plugins, provenance, stage
from pipelines.core.errors import UsageError, choices
from pipelines.data import fetch, sources
from pipelines.entries.ingest import Ingest


def main(key: str) -> None:
    entry = params.entry("ingest", key, Ingest)
    corpus = plugins.load("pipelines.data.corpora", entry.corpus)
    if entry.edition not in corpus.SOURCES:
        raise UsageError(f"params.yaml: ingest.{key}.edition: {choices('edition', entry.edition, corpus.SOURCES)}")
    chosen = sources.only(corpus.SOURCES[entry.edition], entry.only, f"params.yaml: ingest.{key}.only")
    cache = paths.downloads(entry.corpus, entry.edition)
    files = fetch.fetch_all(chosen, cache)
    corpus.verify(cache, entry.edition)
    with paths.fresh_folder(paths.raw(key)) as out:
        for file in files:
            _take(file, out / file.name)
        licences = {source.name: source.licence for source in chosen}
        provenance.write(out, "ingest", entry.model_dump(), files, licences=licences)


def _take(file: Path, target: Path) -> None:
    """Put `file` at `target`: a hard link if the file system allows it, else a copy."""
    try:
        target.hardlink_to(file)
    except OSError:  # on another volume, or a file system without links
        shutil.copyfile(file, target)


if __name__ == "__main__":
    stage.run("ingest", main)
