"""The lineage of a registered version, as one HTML page: a graph of its stages, and what each read and wrote."""

from html import escape
from typing import Any

from pipelines.reports import page, plots

Stages = list[dict[str, Any]]  # each with stage, run, read and wrote (path -> md5)


def html(title: str, facts: list[str], stages: Stages) -> str:
    """The page; `facts` are sentences about the version."""
    sources, edges = flow(stages)
    lines = [
        (stage["stage"], verb, path, md5)
        for stage in reversed(stages)
        for verb in ("wrote", "read")
        for path, md5 in stage[verb].items()
    ]
    items = "".join(f"<li>{escape(fact)}</li>\n" for fact in facts)
    picture = plots.layers([*sources, *(stage["stage"] for stage in stages)], edges)
    table = page.table(("stage", "", "path", "md5"), lines, text=4)
    return page.document(title, f"<h1>{escape(title)}</h1>\n<ul>\n{items}</ul>\n<figure>{picture}</figure>\n{table}")


def flow(stages: Stages) -> tuple[list[str], list[tuple[str, str]]]:
    """The sources (paths that no stage wrote), and an edge from each source or stage to each stage that reads it."""
    wrote = {path: stage["stage"] for stage in stages for path in stage["wrote"]}
    edges = [(wrote.get(path, path), stage["stage"]) for stage in stages for path in stage["read"]]
    sources = list(dict.fromkeys(start for start, _ in edges if start not in wrote.values()))
    return sources, list(dict.fromkeys(edges))
