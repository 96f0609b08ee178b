"""Every corpus of the mirror: fetched, checked, parsed and encoded, with the rows that SOURCES declares.

A small one of each format is encoded in full, and a part of others; all in full by `make soak`.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.core import tables
from pipelines.core.task import Task
from pipelines.data.corpora import glue, jaquad, jglue, ner_wikipedia_ja
from pipelines.stages import encode, ingest, prepare
from pipelines.text.encoding import tagging
from tests.support.places import MIRROR, needs_mirror

pytestmark = [needs_mirror, pytest.mark.slow, pytest.mark.real_data]
JA = {
    "tokenizer_class": "BertJapaneseTokenizer",
    "word_tokenizer_type": "mecab",
    "mecab_kwargs": {"mecab_dic": "ipadic"},
}
VOCABS = {
    "ja": ("bert-base-japanese-v1_vocab.txt", JA),
    "en": ("bert-base-uncased_vocab.txt", {"tokenizer_class": "BertTokenizer", "do_lower_case": True}),
}
soak = pytest.mark.soak
GLUE = ["CoLA", "WNLI", *(pytest.param(name, marks=soak) for name in ("SST-2", "STS-B", "RTE"))]


@pytest.fixture
def place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR.resolve()))
    for name, (file, config) in VOCABS.items():
        Path("vocab", name).mkdir(parents=True)
        shutil.copyfile(MIRROR / "vocab" / file, Path("vocab", name, "vocab.txt"))
        Path("vocab", name, "tokenizer_config.json").write_text(json.dumps(config))
    return checkout


def run(corpus: str, edition: str, task: str, **options: Any) -> dict[str, Any]:
    """Ingest, prepare and encode; the counts of encoding.json."""
    only, length = options.pop("only", []), options.pop("max_length", 128)
    source = options.pop("source", "artifacts/raw/it")
    language = options.pop("vocab", "")
    params = {
        "ingest": {"it": {"corpus": corpus, "edition": edition, "only": only}},
        "prepare": {"it": {"corpus": corpus, "source": source, "task": task, **options}},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))
    if source.startswith("artifacts"):
        ingest.main("it")
    prepare.main("it")
    task_read = Task.load(Path("artifacts/rows/it"))
    params["encode"] = {"it": {"task": "it", "vocab": f"vocab/{language or task_read.language}", "max_length": length}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    encode.main("it")
    for split in task_read.splits if task_read.kind != "text" else ():  # documents are cut when they are packed
        lengths = tables.read(Path(f"artifacts/encoded/it/{split}.parquet"), ["length"]).column("length").to_pylist()
        assert max(lengths) <= length * max(1, len(task_read.labels) if task_read.kind == "choice" else 1)
    return json.loads(Path("artifacts/encoded/it/encoding.json").read_text())


def quality() -> dict[str, Any]:
    return json.loads(Path("artifacts/rows/it/quality.json").read_text())["splits"]


@pytest.mark.parametrize("name", GLUE)
def test_glue(name: str, place: Path) -> None:
    measured = run("glue", name, name)
    assert measured["rows"] == glue.TABLES[name].rows
    labels = {split: numbers["labels"] for split, numbers in quality().items()}
    assert set(labels["test"]) <= {"None", "none known"}
    assert sum(labels["train"].values()) == glue.TABLES[name].rows["train"]
    if glue.TASKS[name].labels:
        assert set(labels["train"]) == set(glue.TASKS[name].labels)


def test_glue_diagnostics(place: Path) -> None:
    assert run("glue", "AX", "AX")["rows"] == {"test": 1104}


@soak
def test_part_of_qnli(place: Path) -> None:
    measured = run("glue", "QNLI", "QNLI", only=["dev.tsv", "test.tsv"], splits=["dev", "test"])
    assert measured["rows"] == {"dev": 5463, "test": 5463}


@pytest.mark.parametrize(("sample", "exact"), [(0.05, 120), pytest.param(0.2, 700, marks=soak)])
def test_jaquad_answers_decode_from_their_windows(sample: float, exact: int, place: Path) -> None:
    measured = run("jaquad", "official", "jaquad", max_length=384, sample=sample)
    assert 0.85 < measured["rows"]["train"] / jaquad.ROWS["train"] / sample < 1.15
    assert quality()["dev"]["unmatched"]["rows"] == 0
    check_answers("dev", exact)


@pytest.mark.parametrize(
    ("version", "sample"), [("2.0", 0.1), *(pytest.param(version, 1.0, marks=soak) for version in ("1.1", "2.0"))]
)
def test_squad_answers_decode_from_their_windows(version: str, sample: float, place: Path) -> None:
    options: dict[str, Any] = {"kind": "span", "format": "squad", "language": "en", "sample": sample}
    options |= {"unanswerable": version == "2.0"}
    files = {"dev": f"dev-v{version}.reconstructed.json"}
    measured = run("custom", "", "", source=str(MIRROR / "squad"), files=files, max_length=384, **options)
    rows = {"1.1": 10570, "2.0": 11873}[version]
    unanswerable = {"1.1": 0, "2.0": 5945}[version]
    assert measured["rows"] == {"dev": pytest.approx(rows * sample, rel=0.0 if sample == 1 else 0.15)}
    share = quality()["dev"]["labels"].get("unanswerable", 0)
    assert share == pytest.approx(unanswerable * sample, rel=0.0 if sample == 1 else 0.15)
    check_answers("dev", 700 * sample)


def check_answers(split: str, least: float) -> None:
    """An answer between token borders decodes exactly; the rest, under one in a hundred, grow by less than a token."""
    rows = {row["id"]: row for row in tables.read(Path(f"artifacts/rows/it/{split}.parquet")).to_pylist()}
    exact = inside = 0
    for window in tables.read(Path(f"artifacts/encoded/it/{split}.parquet")).to_pylist():
        first, last = window["start_position"], window["end_position"]
        if not first:
            continue
        answer, context = rows[window["id"]]["answers"][0], rows[window["id"]]["context"]
        start, end = answer["start"], answer["start"] + len(answer["text"])
        answer_text = context[window["starts"][first] : window["ends"][last]]
        if start == window["starts"][first] and end == window["ends"][last]:
            assert answer_text == answer["text"]
            exact += 1
        else:
            assert window["starts"][first] <= start < window["ends"][first]
            assert window["starts"][last] < end <= window["ends"][last]
            inside += 1
    assert exact > least
    assert inside < 0.01 * exact


@pytest.mark.parametrize("name", [pytest.param(name, marks=[soak] * (name != "jsts")) for name in jglue.ROWS])
def test_jglue(name: str, place: Path) -> None:
    if not any(MIRROR.glob(f"jglue/{name}-*/*.json")):
        pytest.skip(f"{name} is not in the mirror")
    assert run("jglue", name, name)["rows"] == jglue.ROWS[name]


def test_codah(place: Path) -> None:
    assert run("codah", "official", "full")["rows"] == {"train": 2776}
    assert run("codah", "official", "fold", fold=4)["rows"] == {"train": 1665, "dev": 555, "test": 556}


def test_japanese_entities_decode_from_their_tags(place: Path) -> None:
    """All but those with a border inside a MeCab word's piece, under one in a hundred."""
    measured = run("ner_wikipedia_ja", "official", "entities", max_length=64)
    assert sum(measured["rows"].values()) == 5343
    task = ner_wikipedia_ja.TASKS["entities"]
    names = tagging.tags(task)
    same = gold = 0
    for split in task.splits:
        parts: dict[str, list[tuple[int, int, str]]] = {}
        for part in tables.read(Path(f"artifacts/encoded/it/{split}.parquet")).to_pylist():
            inner = list(zip(part["starts"], part["ends"], part["labels"], strict=True))[1:-1]
            parts.setdefault(part["id"], []).extend((s, e, names[x] if x >= 0 else "O") for s, e, x in inner)
        for row in tables.read(Path(f"artifacts/rows/it/{split}.parquet")).to_pylist():
            starts, ends, token_tags = zip(*parts[row["id"]], strict=True)
            decoded = tagging.decode(row["text"], task, starts, ends, token_tags).entities
            gold += len(row["entities"])
            same += sum(entity in decoded for entity in row["entities"])
    assert gold == 13185
    assert same / gold > 0.99


def test_text_to_pretrain_on(place: Path) -> None:
    measured = run(
        "text", "ja", "", sample=0.02, max_lines=50, vocab="ja", files="kyoto*", only=["kyoto_wiki.ja.txt.xz"]
    )
    assert measured["rows"]["train"] > 200
