"""The findings of `bertline check` as one HTML page: what is wrong in params.yaml, and the rows of each corpus."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from pipelines.core.errors import printable
from pipelines.reports import page

MOST = 1_000  # findings of a list that are shown
HEADER = ("split", "rows", "empty", "repeated", "two labels", "similar", "no label", "characters, half", "longest")


class Corpus(NamedTuple):
    """The findings about an entry of prepare; `quality` is what `expectations.quality` returns, None without rows."""

    name: str
    source: str
    wrong: Sequence[str]
    doubts: Sequence[str]
    quality: dict[str, Any] | None


def html(file: str, entries: int, wrong: Sequence[str], corpora: Sequence[Corpus]) -> str:
    """The page.

    Args:
        file: the params file.
        entries: their number; 0 if the file is malformed.
        wrong: sentences about the file.
    """
    body = f"<h1>bertline check</h1>\n<p>{_summary(file, entries, wrong, corpora)}</p>\n"
    body += f"<h2>{_text(file)}</h2>\n{_list(wrong, 'Nothing is wrong.')}"
    return page.document("bertline check", body + "".join(map(_section, corpora)))


def _summary(file: str, entries: int, wrong: Sequence[str], corpora: Sequence[Corpus]) -> str:
    errors = len(wrong) + sum(len(corpus.wrong) for corpus in corpora)
    doubts = sum(len(corpus.doubts) for corpus in corpora)
    form = f"{entries:,} entries in {file}" if entries else f"{file} is malformed"
    return _text(f"{form}; corpora of your own: {len(corpora):,}. Errors: {errors:,}. Doubts: {doubts:,}.")


def _section(corpus: Corpus) -> str:
    parts = [f"<h2>{_text(corpus.name)}</h2>\n<p>{_text(corpus.source)}</p>\n"]
    if corpus.quality:
        splits = corpus.quality["splits"].items()
        parts.append(page.table(HEADER, [_line(split, numbers) for split, numbers in splits], text=1))
        labels = {split: numbers["labels"] for split, numbers in splits if numbers.get("labels")}
        names = list(dict.fromkeys(name for counts in labels.values() for name in counts))[:MOST]
        lines = [[printable(name), *(f"{counts.get(name, 0):,}" for counts in labels.values())] for name in names]
        parts.append(page.table(("label", *labels), lines, text=1) if lines else "")
    parts.append(f"<h3>Errors</h3>\n{_list(corpus.wrong, 'None.')}")
    parts.append(f"<h3>Doubts</h3>\n{_list(corpus.doubts, 'None.')}")
    return "".join(parts)


def _line(split: str, numbers: dict[str, Any]) -> list[str]:
    keys = ("empty", "duplicates", "conflicts", "near_duplicates", "unlabelled")
    counts = [numbers["rows"], *(numbers.get(key, {"rows": 0})["rows"] for key in keys)]
    return [split, *(f"{n:,}" for n in [*counts, numbers["characters"]["median"], numbers["characters"]["max"]])]


def _list(sentences: Sequence[str], none: str) -> str:
    if not sentences:
        return f"<p>{none}</p>\n"
    more = f"<p>and {len(sentences) - MOST:,} more</p>\n" if len(sentences) > MOST else ""
    items = (f"<li>{_sentence(sentence)}</li>\n" for sentence in sentences[:MOST])
    return f"<ul>\n{''.join(items)}</ul>\n{more}"


def _sentence(sentence: str) -> str:
    return page.sentence(printable(sentence))


def _text(value: str) -> str:
    return escape(printable(value))
