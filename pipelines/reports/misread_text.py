"""The rows that a run misreads as lines for a terminal."""

from collections.abc import Iterator
from typing import Any

from pipelines.core.errors import printable
from pipelines.reports.difference_text import as_text, cut
from pipelines.reports.run_tables import aligned

CONFUSIONS = 10  # pairs of labels that are shown


def plain(answer: dict[str, Any]) -> str:
    """The number of rows that are misread, the labels that are taken for others, and the worst rows."""
    parts = [_sentence(answer), _confusions(answer["confusions"]), "\n".join(_rows(answer))]
    return printable("\n\n".join(filter(None, parts)), keep="\n")


def _sentence(answer: dict[str, Any]) -> str:
    score = "" if answer["score"] is None else f"{answer['metric']} {answer['score']:.4f}; "
    count = f"{answer['misread']:,} of {answer['rows']:,} rows are not answered right"
    return f"{answer['run']} on {answer['task']} {answer['split']}: {score}{count}"


def _confusions(confusions: list[dict[str, Any]]) -> str:
    lines = [(pair["gold"], pair["answer"], f"{pair['rows']:,}") for pair in confusions[:CONFUSIONS]]
    more = f"\nand {len(confusions) - CONFUSIONS:,} more pairs: --json" if len(confusions) > CONFUSIONS else ""
    return aligned([("gold", "answer", "rows"), *lines], text=2) + more if lines else ""


def _rows(answer: dict[str, Any]) -> Iterator[str]:
    if answer["listed"]:
        yield f"the worst {len(answer['listed']):,} of {answer['misread']:,}"
    for row in answer["listed"]:
        yield f"  {row['id']}: {' / '.join(cut(as_text(text)) for text in row['inputs'].values())}"
        sure = "" if row["score"] is None else f" ({row['score']:.3f})"
        yield f"    gold: {cut(as_text(row['gold']))}; answer: {cut(as_text(row['answer']))}{sure}"
