"""All findings about params.yaml and about every row of corpora of one's own, as a page."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.core import params, paths
from pipelines.core.errors import InputError
from pipelines.data import doubts, expectations, prepare_entry
from pipelines.entries.prepare import Prepare
from pipelines.graph import params_findings
from pipelines.reports import check_page
from pipelines.reports.check_page import Corpus


def write(page: Path) -> tuple[int, int]:
    """Write the page; returns the numbers of errors and of doubts. Every row is read; nothing else is written."""
    sections, wrong = params_findings.read()
    prepared = {name: entry for name, entry in sections.get("prepare", {}).items() if isinstance(entry, Prepare)}
    custom = {name: entry for name, entry in prepared.items() if entry.corpus == "custom"}
    present = {name: entry for name, entry in custom.items() if Path(entry.source).exists()}
    corpora = [corpus(name, entry) for name, entry in present.items()]
    of_rows = tuple(sentence for one in corpora for sentence in one.wrong)
    wrong = [sentence for sentence in wrong if not (of_rows and sentence.endswith(of_rows))]  # each once
    text = check_page.html(str(params.FILE), sum(map(len, sections.values())), wrong, corpora)
    with paths.fresh_file(page) as aside:
        aside.write_text(text, encoding="utf-8")
    return len(wrong) + _count([one.wrong for one in corpora]), _count([one.doubts for one in corpora])


def corpus(name: str, entry: Prepare) -> Corpus:
    """The findings about an entry's rows, which are prepared as its stage does, in a folder that does not stay."""
    with TemporaryDirectory(prefix="bertline-check-") as folder:
        try:
            task, wrong, has_rows = prepare_entry.parse(name, entry, Path(folder))
        except InputError as error:
            return Corpus(name, entry.source, [str(error)], [], None)
        if not has_rows:
            return Corpus(name, entry.source, [*dict.fromkeys(wrong)] or ["a split has no rows"], [], None)
        quality = expectations.quality(Path(folder), task)
    unmet = list(expectations.unmet(quality, entry.expect))
    # a broken row is met again for each split that is made of its file
    errors = [*dict.fromkeys(wrong), *expectations.unlabelled(quality), *([] if entry.expect.warn else unmet)]
    doubtful = [*(unmet if entry.expect.warn else []), *doubts.sentences(quality, entry.expect)]
    return Corpus(name, entry.source, errors, doubtful, quality)


def _count(lists: Sequence[Sequence[str]]) -> int:
    return sum(map(len, lists))
