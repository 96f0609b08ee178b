"""ingest: the corpus to fetch."""

from pipelines.core.section import Section


class Ingest(Section):
    corpus: str
    edition: str = "official"  # a key of the corpus's SOURCES
    only: list[str] = []  # the only files to fetch, for a mirror without the others; empty: all
