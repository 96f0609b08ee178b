"""livedoor: Japanese news articles in nine categories (the livedoor news corpus of RONDHUIT, CC BY-ND 2.1 JP)."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.section import Section
from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.archives import tar_files
from pipelines.data.sources import Source

ARCHIVE = "ldcc-20140209.tar.gz"
SOURCES = {
    "official": [
        Source(
            ARCHIVE,
            url=f"https://www.rondhuit.com/download/{ARCHIVE}",
            mirror=f"livedoor/{ARCHIVE}",
            repacked=True,  # no digest of the archive is published; `verify` checks its content
            licence="CC BY-ND 2.1 JP",
        )
    ],
    "samples": [
        Source(
            ARCHIVE,
            path="samples/livedoor/ldcc-samples.tar.gz",
            sha256="2b4320e8cd91a6ff4189ee230d61faf194897a817d5efc8e2b45aa70385e73da",
            licence="as this project",
        )
    ],
}
ARTICLES = {  # of the official edition; the keys are the labels, in the order of their ids
    "dokujo-tsushin": 870,
    "it-life-hack": 870,
    "kaden-channel": 864,
    "livedoor-homme": 511,
    "movie-enter": 870,
    "peachy": 842,
    "smax": 870,
    "sports-watch": 900,
    "topic-news": 770,
}
TREE_DIGEST = "85df24619023c4544087dbac25ea45cc4a336b96a14687bc947d8ff5731bde6b"
PASSAGE = 100  # characters, about 60 tokens
_CLASSIFY = Task("", "single", tuple(ARTICLES), "accuracy", ("train", "test"), "ja")
TASKS = {
    "title": _CLASSIFY.with_(name="title"),
    "body": _CLASSIFY.with_(name="body"),
    "article": _CLASSIFY.with_(name="article"),  # title and body
    # text to pretrain on, without the test articles: their bodies, or titles and bodies
    "bodies": Task("bodies", "text", splits=("train",), language="ja"),
    "articles": Task("articles", "text", splits=("train",), language="ja"),
    # titles, each with every passage of its body
    "passages": Task("passages", "positive_pair", splits=("train",), language="ja"),
}


class Params(Section):
    """The draw of articles. Text to pretrain on excludes the test articles that the same params draw."""

    train_per_class: int | None = Field(None, ge=1)  # None: all articles that are not test articles
    test_per_class: int | None = Field(None, ge=1)  # None: a fifth of each class
    folds: int | None = Field(None, ge=2)  # cross-validation instead: every article is tested in one fold
    fold: int = Field(0, ge=0)
    seed: int = Field(1, ge=0)

    @model_validator(mode="after")
    def _one_way(self) -> "Params":
        if self.folds and (self.train_per_class or self.test_per_class):
            raise ValueError("folds takes all articles; leave out train_per_class and test_per_class")
        if self.folds and self.fold >= self.folds:
            raise ValueError(f"fold {self.fold} of {self.folds}: they are numbered from 0")
        return self


class Article(NamedTuple):
    id: str
    category: str
    title: str
    body: str


task = declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Rows of one split: the articles from `draw`; for pretraining, every article that is not a test article."""
    articles = read(raw / ARCHIVE)
    train, test = draw(articles, params)
    if task.labels:
        chosen = set(train if split == "train" else test)
    else:
        chosen = set(range(len(articles))) - set(test)
    for i in sorted(chosen):
        article = articles[i]
        if task.kind == "positive_pair":
            yield from _passages(article)
            continue
        both = f"{article.title}\n{article.body}"
        text = {"title": article.title, "article": both, "articles": both}.get(task.name, article.body)
        yield {"id": article.id, "text": text} | ({"label": article.category} if task.labels else {})


def _passages(article: Article) -> Iterator[dict[str, Any]]:
    """The title with each passage of the body; a passage is as many sentences as reach PASSAGE characters."""
    pending, number = "", 0
    for sentence in [*re.split(r"(?<=[。\n])", article.body), None]:
        pending += sentence or ""
        if pending.strip() and (sentence is None or len(pending) >= PASSAGE):
            yield {"id": f"{article.id}-{number}", "text": article.title, "text_pair": pending.strip()}
            pending, number = "", number + 1


def draw(articles: list[Article], params: Params) -> tuple[list[int], list[int]]:
    """Positions of the training and the test articles, drawn in each class separately."""
    train: list[int] = []
    test: list[int] = []
    for category in ARTICLES:
        members = [i for i, article in enumerate(articles) if article.category == category]
        order = [members[k] for k in seeding.generator(params.seed, "livedoor", category).permutation(len(members))]
        if params.folds:
            test += order[params.fold :: params.folds]
            train += [i for k, i in enumerate(order) if k % params.folds != params.fold]
            continue
        tests = params.test_per_class or max(1, len(members) // 5)
        trains = params.train_per_class or len(members) - tests
        if trains < 1 or tests + trains > len(members):
            raise InputError(
                f"livedoor: {category} has {len(members)} articles, fewer than "
                f"{trains} for training and {tests} for testing"
            )
        test += order[:tests]
        train += order[tests : tests + trains]
    return train, test


@lru_cache(maxsize=1)
def read(archive: Path) -> list[Article]:
    """Every article of the archive, sorted by id."""
    articles = []
    for name, content in tar_files(archive):
        parts = name.split("/")
        if len(parts) == 3 and parts[1] in ARTICLES and parts[2].startswith(parts[1]):
            articles.append(_article(archive, name, content))
    if not articles:
        raise InputError(f"{archive}: no articles text/<category>/<category>-<number>.txt in it")
    return sorted(articles)


def _article(archive: Path, name: str, content: bytes) -> Article:
    """The article in a file: line 1 is the address, line 2 the time, line 3 the title; the rest is the body."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{archive}: {name}: byte {error.start} is not UTF-8") from None
    if len(lines) < 3:
        raise InputError(f"{archive}: {name}: {len(lines)} lines; an address, a time and a title are the first three")
    path = Path(name)
    return Article(path.stem, path.parent.name, lines[2].strip(), "\n".join(lines[3:]).strip())


def verify(raw: Path, edition: str) -> None:
    """Check the official edition by its counts and the digest of its tree, however it was packed."""
    archive = raw / ARCHIVE
    counts = Counter(article.category for article in read(archive))
    if edition != "official":
        return
    if counts != ARTICLES:
        wrong = next(c for c in ARTICLES if counts[c] != ARTICLES[c])
        raise InputError(f"{archive}: {counts[wrong]} articles in {wrong}, {ARTICLES[wrong]} are declared")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in tar_files(archive)}
    lines = (f"{digests[name]}  {name}\n" for name in sorted(digests, key=lambda n: n.encode()))
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    if digest != TREE_DIGEST:
        raise InputError(f"{archive}: the digest of its tree is {digest}, {TREE_DIGEST} is declared")
