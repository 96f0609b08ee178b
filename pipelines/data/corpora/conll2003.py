"""conll2003: English named entities of four kinds (Tjong Kim Sang and De Meulder 2003), from your own files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats import conll
from pipelines.data.sources import Source

_LICENCE = "Reuters, research only, not to be passed on"
_FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}
SOURCES = {
    "official": [  # no address: put the files into BERTLINE_MIRROR/conll2003. Published digests are cut
        Source("eng.train", mirror="conll2003/eng.train", sha256_begins="bed631399cb0e859", licence=_LICENCE),
        Source("eng.testa", mirror="conll2003/eng.testa", sha256_begins="aa83a45b88e49529", licence=_LICENCE),
        Source("eng.testb", mirror="conll2003/eng.testb", sha256_begins="443914daf5132886", licence=_LICENCE),
    ]
}
TASKS = {"entities": Task("entities", "tagging", ("PER", "ORG", "LOC", "MISC"), "f1", ("train", "dev", "test"), "en")}
ROWS = {"train": 14041, "dev": 3250, "test": 3453}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Sentences of one split; columns are word, part of speech, chunk and tag."""
    path = raw / _FILES[split]
    for number, sentence in enumerate(conll.sentences(path)):
        yield conll.row(path, sentence, f"{split}-{number}")


def verify(raw: Path, edition: str) -> None:
    """Check that every split has as many sentences as declared."""
    declared.check_rows(raw, TASKS["entities"], ROWS, parse, Params())
