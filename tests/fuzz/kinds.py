"""The inputs that are fuzzed. Each function writes one mutant into the working folder and returns what then reads it.

`SEEDS` in `seeds.py` has made a whole, small example of each before.
"""

import json
import random
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from pipelines.core import paths
from pipelines.core.errors import InputError, one_line
from pipelines.core.schema import INPUTS
from pipelines.data.corpora import livedoor
from pipelines.graph import checking
from pipelines.lifecycle import history, lineage
from pipelines.scoring import batch_scoring
from pipelines.stages import encode, prepare
from pipelines.tracking.ledger_events import Kept, replay
from pipelines.tracking.registry import Version
from pipelines.training.batches import Encoded
from tests.fuzz import files, mutate, seeds
from tests.fuzz.kinds_kept import cache, scored
from tests.fuzz.kinds_of_models import model, own_format, published

Run = Callable[[], object]


def params(rng: random.Random) -> Run:
    """params.yaml, read as `bertline check` reads it."""
    content = Path(rng.choice(seeds.PARAMS)).read_bytes()
    if rng.random() < 0.7:
        content = mutate.as_yaml(mutate.changed(yaml.safe_load(content), rng))
    else:
        content = mutate.damaged(content, rng)
    Path("mutant.yaml").write_bytes(content)
    return lambda: checking.check(Path("mutant.yaml"))


def corpus(rng: random.Random) -> Run:
    """A corpus of one's own, through the stage prepare."""
    name = rng.choice(list(seeds.CORPORA))
    entry, file, content = seeds.CORPORA[name]
    if Path(file).suffix == ".jsonl" and rng.random() < 0.7:
        lines = [json.loads(line) for line in content.decode().splitlines()]
        content = b"\n".join(mutate.as_json(row, rng) for row in _rows(mutate.changed(lines, rng)))
    elif Path(file).suffix == ".json" and rng.random() < 0.7:
        content = mutate.as_json(mutate.changed(json.loads(content), rng), rng)
    elif Path(file).suffix == ".parquet":
        content = files.parquet(content, rng)
    else:
        content = mutate.damaged(content, rng)
    if rng.random() < 0.2:
        entry = mutate.changed(entry, rng)
    Path(file).write_bytes(content)
    Path("params.yaml").write_bytes(mutate.as_yaml({"prepare": {"it": entry}}))
    return lambda: prepare.main("it")


def _rows(tree: Any) -> list[Any]:
    return tree if isinstance(tree, list) else [tree]


def archive(rng: random.Random) -> Run:
    """livedoor's archive, through the stage prepare."""
    out = BytesIO()
    mode = rng.choice(("w:gz", "w", "w:xz", "w:bz2"))
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in seeds.ARTICLES.items():
            info, changed = tarfile.TarInfo(name), content
            if rng.random() < 0.05:
                changed = mutate.damaged(content, rng)
            odd_member(info, rng)
            info.size = len(changed) if info.isreg() else 0
            tar.addfile(info, BytesIO(changed))
    content = out.getvalue()
    Path("raw").mkdir(exist_ok=True)
    Path("raw/ldcc-20140209.tar.gz").write_bytes(mutate.damaged(content, rng) if rng.random() < 0.3 else content)
    entry = {"corpus": "livedoor", "source": "raw", "task": rng.choice(list(livedoor.TASKS))}
    Path("params.yaml").write_bytes(mutate.as_yaml({"prepare": {"it": entry}}))
    return lambda: prepare.main("it")


def odd_member(info: tarfile.TarInfo, rng: random.Random) -> None:
    """At times another name, or a link in place of a file."""
    if rng.random() < 0.03:
        info.name = rng.choice(("../../x", "/etc/x", "text/x", "", "text/topic-news/x.txt", "a" * 300))
    if rng.random() < 0.02:
        info.type, info.linkname = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)), "/etc/passwd"


def rows(rng: random.Random) -> Run:
    """artifacts/rows, through the stage encode."""
    kind = rng.choice(list(seeds.KINDS))
    folder = paths.rows("it")
    files.copied(Path("seeds") / kind / "rows", folder)
    files.change_one(folder, rng)
    options: dict[str, Any] = {"task": "it", "vocab": str(Path("seeds/tokenizer")), "max_length": 32}
    if rng.random() < 0.2:
        options = mutate.changed(options | {"stride": 5, "special_tokens": "text"}, rng)
    Path("params.yaml").write_bytes(mutate.as_yaml({"encode": {"it": options}}))
    return lambda: encode.main("it")


def encoded(rng: random.Random) -> Run:
    """artifacts/encoded, as training reads it: every row in batches."""
    kind = rng.choice(list(seeds.KINDS))
    files.copied(Path("seeds") / kind / "encoded", Path("encoded"))
    files.change_one(Path("encoded"), rng, skip=("tokenizer",))

    def train() -> None:
        from pipelines.training.batches import RowBatches

        batches = RowBatches(Encoded.read(Path("encoded"), "train"), 4, 1, 1, 0)
        for step in range(len(batches)):
            batches[step]

    return train


def scoring(rng: random.Random) -> Run:
    """A Parquet file for batch scoring."""
    kind = rng.choice(list(seeds.KINDS))
    content = (Path("seeds") / kind / "rows/train.parquet").read_bytes()
    Path("in.parquet").write_bytes(files.parquet(content, rng))
    return lambda: list(batch_scoring.scored_here(Path("in.parquet"), seeds.scorer(kind)))


def request(rng: random.Random) -> Run:
    """The body of a request to the service."""
    kind = rng.choice(list(seeds.KINDS))
    rows = pq.read_table(Path("seeds") / kind / "rows/train.parquet", columns=INPUTS[kind]).slice(0, 3).to_pylist()
    tree = {"rows": rows, "scores": rng.random() < 0.5}
    body = mutate.as_json(mutate.changed(tree, rng), rng)
    if rng.random() < 0.3:
        body = mutate.damaged(body, rng)
    return lambda: seeds.ask(kind, body)


def ledger_events(rng: random.Random) -> Run:
    """The events of a ledger, as `bertline history` says them. What a change does to them is damage, or counted."""
    texts = [mutate.as_json(json.loads(text), rng) for text in seeds.EVENTS]
    at = rng.randrange(len(texts))
    content = mutate.as_json(mutate.changed(json.loads(texts[at]), rng), rng)
    texts[at] = content if rng.random() < 0.7 else mutate.damaged(content, rng)
    rows = [Kept(number, 1000 * number, text.decode(errors="replace")) for number, text in enumerate(texts, start=1)]

    def read() -> None:
        state = replay(rows)
        history.plain(history.told("m", state, {1}))
        if state.damage or state.overtaken or state.repeated:
            raise InputError(one_line(InputError("; ".join(state.damage) or "an event does not count")))

    return read


def tags(rng: random.Random) -> Run:
    """The tags of a version, as `bertline lineage` says them."""
    tags = dict(seeds.TAGS)
    name = rng.choice(list(tags))
    content = mutate.as_json(mutate.changed(json.loads(tags[name]), rng), rng)
    tags[name] = (content if rng.random() < 0.7 else mutate.damaged(content, rng)).decode(errors="replace")
    version = Version("m", 1, tags)

    def read() -> None:
        described = lineage.described(version) | {"champion": False, "parents": lineage.teachers(version)}
        lineage.plain_model(described)

    return read


WEIGHTS: dict[Callable[[random.Random], Run], int] = {
    params: 5, corpus: 6, archive: 1, rows: 2, encoded: 2, model: 3, own_format: 3, published: 1, scoring: 1,
    request: 2, ledger_events: 1, tags: 1, scored: 1,
    cache: 1,
}  # fmt: skip
