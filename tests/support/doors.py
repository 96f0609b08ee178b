"""The doors of a registered model: all that opens its champion, in this process."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa

import bertline
from pipelines.core import paths, schema, tables
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import promotion
from pipelines.scoring import batch_scoring, job
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from pipelines.tracking import ledger, registry
from tests.support import tiny

RULES = "at_least: 0, may_lose: 1"


def furnish(place: Path, name: str, model: Path) -> None:
    """Write the params and the rows that the doors of this registered model need; `model` labels the rows."""
    text = tiny.PARAMS.replace("promote: {tiny: {run: tiny}}", f"promote: {{{name}: {{run: tiny, {RULES}}}}}")
    (place / "params.yaml").write_text(text)
    rows = pa.table({"id": [str(number) for number in range(len(tiny.TEXTS))], "text": tiny.TEXTS})
    rows = rows.append_column("label", Predictor.load(model).predict(rows).column("label")).cast(schema.ROWS["single"])
    tables.write(paths.rows("rows") / "test.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("test",)).save(paths.rows("rows"))
    (place / "incoming").mkdir()
    tables.write(place / "incoming/in.parquet", rows.select(["text"]).to_batches(), rows.select(["text"]).schema)


def of_champion(name: str, place: Path) -> dict[str, Callable[[], object]]:
    """The doors that open the champion, by name; each works as often as it is called, and changes no champion."""

    def served() -> None:
        with closing(Catalogue()) as catalogue:
            catalogue.serve({name: Source(name)})

    source, target = place / "incoming", place / "scored"
    return {
        "registry.folder": lambda: registry.folder(registry.get(name, registry.CHAMPION)),
        "bertline.load": lambda: bertline.load(name),
        "bertline.load by number": lambda: bertline.load(f"{name}@{ledger.champion(name)}"),
        "serve": served,
        "score": lambda: batch_scoring.score(
            source / "in.parquet", place / "scored.parquet", registry.get(name, registry.CHAMPION), ray=False
        ),
        "score a folder": lambda: job.run(source, target, name, registry.CHAMPION, job.Options()),
    }


def promoted(name: str, version: int) -> promotion.Outcome:
    """Promote a version by the rules that `furnish` wrote."""
    return promotion.promote(name, version, None, "a test")


@contextmanager
def running(name: str) -> Iterator[Catalogue]:
    """The models of a running service, which serves the champion of this moment."""
    with closing(Catalogue()) as catalogue:
        catalogue.serve({name: Source(name)})
        yield catalogue
