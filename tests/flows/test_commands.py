"""The commands of docs/promoting.md, each with its exit status, on MLflow's own SQLite."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from pipelines.tracking import registry
from tests.support import commands, json_answers, tiny
from tests.support.places import CODE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PARAMS = """
prepare: {rows: {corpus: custom, source: x}}
encode: {rows: {task: rows, vocab: v, max_length: 16}}
finetune: {tiny: {data: rows, encoder: e}}
evaluate: {tiny: {task: rows}}
promote: {tiny: {run: tiny, gate: off}}
"""
STAGES = [{"stage": "prepare@rows", "run": "", "read": {"raw/x": "0" * 32}, "wrote": {"rows": "abcdef12" * 4}}]


@pytest.fixture
def versions(checkout: Path) -> Iterator[None]:
    """Two versions of `tiny`, of which none is champion."""
    (checkout / "params.yaml").write_text(PARAMS)
    folder = tiny.classifier(checkout / "model")
    for md5 in ("1", "2"):
        tags = {"run": "tiny", "md5": md5, "lineage": json.dumps(STAGES)}
        registry.register("tiny", folder, CODE, "single", {"text": "犬"}, tags)
    yield
    mlflow.set_tracking_uri(None)


def bertline(line: str, status: int = 0) -> str:
    """What the command prints; of one that fails, what it says of that."""
    ended = commands.bertline(line, BERTLINE_ACTOR="the owner").require(status)
    return ended.err if status in (1, 2) else ended.out


@pytest.mark.usefixtures("versions")
def test_promote_history_rollback_and_lineage() -> None:
    assert bertline("history tiny") == "tiny has no champion\n"
    assert (
        bertline("rollback tiny", status=1)
        == "bertline: error: tiny: no champion before version none to roll back to\n"
    )
    assert bertline("promote tiny --version 1 --reason first") == "tiny version 1 is the champion\n"
    assert bertline("promote tiny --version 1") == "nothing to do\ntiny version 1 is the champion\n"
    assert "its champion is version 1, not 2" in bertline("promote tiny --instead-of 2", status=1)
    assert bertline("promote tiny --version 2 --instead-of 1") == "tiny version 2 is the champion\n"
    assert bertline("rollback tiny") == "tiny version 1 is the champion again\n"
    back = bertline('rollback tiny --to 2 --reason "it was better" --json')
    assert json_answers.require_keys("rollback", back) == {"model": "tiny", "champion": 2}
    assert "tiny: version 2 is the champion already" in bertline("rollback tiny --to 2", status=1)

    lines = bertline("history tiny").splitlines()
    assert lines[0] == "tiny: version 2 is the champion"
    assert [re.sub(r"^ +\d+  \S+  ", "", line) for line in lines[1:]] == [
        "promote  version 1, the owner: first",
        "promote  version 2 (before: 1), the owner: the gate is off",
        "rollback version 1 (before: 2), the owner: no reason was given",
        "rollback version 2 (before: 1), the owner: it was better",
    ]
    events = json_answers.require_keys("history", bertline("history tiny --json"))["events"]
    assert [event["version"] for event in events] == [1, 2, 1, 2]
    assert bertline("history tiny --at 2999-01-01").startswith("tiny version 2 was champion: the owner, ")
    champion = json.loads(bertline("history tiny --at 2999-01-01 --json"))
    assert (champion["champion"], champion["event"]) == (2, events[-1])
    none = json.loads(bertline("history tiny --at 2026-01-01 --json"))
    assert (none["champion"], none["event"]) == (None, None)
    assert "no registered model 'tinny' (did you mean 'tiny'?)" in bertline("history tinny", status=1)

    [champion] = json.loads(bertline("status --json"))["champions"]
    event = {"champion": 2, "since": events[-1]["at"], "actor": "the owner", "reason": "it was better"}
    assert champion == {"model": "tiny", **event, "challenger": 2, "versions": [1, 2], "replay": ""}

    said = bertline('approve tiny --version 1 --reason "read 50 rows"')
    assert said == "tiny version 1 is approved; `bertline promote tiny --version 1` compares it with the champion\n"
    again = bertline('approve tiny --version 1 --reason "read none"', status=1)
    assert re.search(r"tiny version 1 is approved already, by the owner at \S+: read 50 rows$", again.strip())
    first, second = json_answers.require_keys("versions", bertline("versions tiny --json"))
    assert re.fullmatch(r"the owner at \S+: read 50 rows", first["approved_by"])
    assert (first["aliases"], second["aliases"], second["approved_by"]) == ([], ["challenger", "champion"], "")
    assert bertline("versions tiny").splitlines()[2].split() == [
        "2", "challenger,", "champion", "-", "torch", "-", "-",
    ]  # fmt: skip
    bertline("approve tiny --version 9", status=1)
    for command in ("approve", "promote", "rollback"):
        too_long = bertline(f"{command} tiny --reason {'x' * 4001}", status=2)
        assert "--reason: 4,001 characters; at most 4,000 are stored" in too_long
    approved = bertline("approve tiny --version 2 --json")
    assert json_answers.require_keys("approve", approved) == {"model": "tiny", "version": 2}
    json_answers.require_keys("promote", bertline("promote tiny --version 2 --json"))

    assert bertline("lineage model tiny@champion").startswith("tiny version 2, the champion, of commit unknown\n")
    assert bertline("lineage data abcdef12").endswith("in tiny version 1\n  in tiny version 2, the champion\n")
    json_answers.require_keys("lineage", bertline("lineage model tiny@champion --json"))
    json_answers.require_keys("lineage", bertline("lineage data abcdef12 --json"), 1)
    bertline("lineage data 99999999", status=1)
