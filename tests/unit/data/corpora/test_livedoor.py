"""The livedoor corpus: the samples, and the real one where a mirror holds it."""

import gzip
import shutil
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.corpora import livedoor
from pipelines.data.fetch import fetch
from samples import pack
from tests.support.places import MIRROR, ROOT, needs_mirror


@pytest.fixture
def samples(checkout: Path) -> Path:
    shutil.copytree(ROOT / "samples", checkout / "samples")
    return fetch(livedoor.SOURCES["samples"][0], checkout / "raw")[0].parent


def test_the_archive_is_what_its_tables_say() -> None:
    assert gzip.decompress(pack.ARCHIVE.read_bytes()) == gzip.decompress(pack.packed())


def test_the_draw_depends_on_the_seed_alone_and_never_overlaps(samples: Path) -> None:
    def ids(split: str, seed: int) -> list[str]:
        params = livedoor.Params(train_per_class=20, test_per_class=10, seed=seed)
        return [row["id"] for row in livedoor.parse(samples, livedoor.TASKS["title"], split, params)]

    assert ids("train", 1) == ids("train", 1) != ids("train", 2)
    assert len(ids("train", 1)) == 180
    assert len(ids("test", 1)) == 90
    assert not set(ids("train", 1)) & set(ids("test", 1))


def test_the_text_to_pretrain_on_leaves_out_the_test_articles(samples: Path) -> None:
    params = livedoor.Params(train_per_class=20, test_per_class=10)
    test = {row["id"] for row in livedoor.parse(samples, livedoor.TASKS["title"], "test", params)}
    text = {row["id"] for row in livedoor.parse(samples, livedoor.TASKS["bodies"], "train", params)}
    articles = {row["id"]: row["text"] for row in livedoor.parse(samples, livedoor.TASKS["articles"], "train", params)}
    assert articles.keys() == text
    titles = {row["id"]: row["text"] for row in livedoor.parse(samples, livedoor.TASKS["title"], "train", params)}
    assert all(articles[i].startswith(title + "\n") for i, title in titles.items())
    assert len(text) == 360 - 90
    assert not text & test


def test_every_passage_of_a_body_stands_with_its_title(samples: Path) -> None:
    params = livedoor.Params(train_per_class=20, test_per_class=10)
    bodies = {row["id"]: row["text"] for row in livedoor.parse(samples, livedoor.TASKS["bodies"], "train", params)}
    passages: dict[str, list[dict]] = {}
    for row in livedoor.parse(samples, livedoor.TASKS["passages"], "train", params):
        article, _, number = row["id"].rpartition("-")
        passages.setdefault(article, []).append(row)
        assert int(number) == len(passages[article]) - 1
    assert passages.keys() == bodies.keys()
    articles = {row["id"]: row["text"] for row in livedoor.parse(samples, livedoor.TASKS["articles"], "train", params)}
    for article, rows in passages.items():
        assert {row["text"] for row in rows} == {articles[article].split("\n")[0]}
        assert all(len(row["text_pair"]) >= livedoor.PASSAGE - 2 for row in rows[:-1])
        assert "".join(r["text_pair"] for r in rows).replace("\n", "") == bodies[article].replace("\n", "")


def test_more_articles_than_there_are_fails_in_one_sentence(samples: Path) -> None:
    params = livedoor.Params(train_per_class=40, test_per_class=10)
    with pytest.raises(InputError, match="has 40 articles, fewer than 40 for training and 10 for testing"):
        list(livedoor.parse(samples, livedoor.TASKS["title"], "train", params))


@pytest.mark.real_data
@needs_mirror
def test_the_official_corpus_is_checked_inside(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_MIRROR", str(MIRROR))
    fetch(livedoor.SOURCES["official"][0], checkout)
    livedoor.verify(checkout, "official")
    assert len(livedoor.read(checkout / livedoor.ARCHIVE)) == 7367


def test_samples_are_not_the_official_corpus(samples: Path) -> None:
    with pytest.raises(InputError, match="40 articles in dokujo-tsushin, 870 are declared"):
        livedoor.verify(samples, "official")


def test_in_cross_validation_every_article_is_tested_once(samples: Path) -> None:
    tested: list[str] = []
    for fold in range(4):
        params = livedoor.Params(folds=4, fold=fold)
        test, train = (
            [row["id"] for row in livedoor.parse(samples, livedoor.TASKS["title"], split, params)]
            for split in ("test", "train")
        )
        assert len(train) == 270
        assert not {*test} & {*train}
        tested += test
    assert len(tested) == len({*tested}) == 360
    with pytest.raises(ValueError, match="fold 4 of 4"):
        livedoor.Params(folds=4, fold=4)
