"""bertline prune: which versions stay and why, what is removed of the others, and what their names say afterwards."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from flows.local import http_service
from pipelines.core.errors import InputError
from pipelines.lifecycle import promotion, pruning
from pipelines.serving.model_sources import Source
from pipelines.tracking import ledger, registry, store
from tests.support import commands, ledgers, tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
FILES = Path("state/mlflow/artifacts")


@pytest.fixture
def registered(checkout: Path) -> Iterator[None]:
    """Five versions of `tiny`: 1 to 3 were champion, 2 has an alias, 4 lies elsewhere, 5 is the challenger."""
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    model = tiny.classifier(checkout / "model")
    (checkout / "elsewhere").mkdir()
    (checkout / "elsewhere/MLmodel").write_text("flavors: {python_function: {artifacts: {}}}")
    for number in range(1, 6):
        if number == 4:
            client = store.connect()
            client.create_model_version("tiny", (checkout / "elsewhere").as_uri(), await_creation_for=0)
        else:
            registry.register("tiny", model, CODE, "single", {"text": "犬"}, {"run": "tiny"})
    store.connect().set_registered_model_alias("tiny", "staging", "2")
    for number in (1, 2, 3):
        ledger.append("tiny", ledger.read("tiny"), "promote", number, "a test")
    yield
    mlflow.set_tracking_uri(None)


def answered(line: str) -> dict[str, Any]:
    return json.loads(commands.bertline(f"{line} --json").require(0).out)


def refusal(line: str) -> str:
    return commands.bertline(line).require(1).err


@pytest.mark.usefixtures("registered")
def test_old_versions_go_with_their_files_and_their_events_stay(checkout: Path) -> None:
    models = {place.parent.name for place in FILES.rglob("m-*/artifacts")}
    assert len(models) == 4
    first = answered("prune tiny --keep 2")
    assert (first["would"], first["removed"]) == ([1, 4], [])
    assert first["bytes"] > 10_000
    assert first["stays"] == {
        "2": ["has the alias staging", "one of the last champions"],
        "3": ["is the champion"],
        "5": ["has the alias challenger", "is the newest"],
    }
    page = commands.bertline("prune tiny --keep 2").require(0).out
    assert "version 2 stays: has the alias staging, one" in page
    assert "would remove version 1, version 4, " in page
    assert "add --yes to remove them; it cannot be taken back" in page
    assert len(registry.versions("tiny")) == 5
    assert answered("prune tiny")["would"] == [4], "three champions stay by default"
    _check_that_what_a_service_answers_with_stays()

    assert answered("prune tiny --keep 2 --yes")["removed"] == [1, 4]
    assert [version.version for version in registry.versions("tiny")] == [2, 3, 5]
    assert len(list(FILES.rglob("m-*/artifacts/MLmodel"))) == 3
    assert (checkout / "elsewhere/MLmodel").exists(), "whoever registers may name any place"
    assert registry.folder(registry.version("tiny", 2)).is_dir()
    assert "tiny: nothing to remove" in commands.bertline("prune tiny --keep 2 --yes").require(0).out

    events = answered("history tiny")["events"]
    assert [(event["version"], event["removed"]) for event in events] == [(1, True), (2, False), (3, False)]
    page = commands.bertline("history tiny").require(0).out
    assert "promote  version 1, which was removed since" in page
    assert re.search(r"   4  \S+  prune    version 1, version 4, .*: not among the last champions", page)
    assert [row["versions"] for row in answered("history tiny")["removals"]] == [[1, 4]]
    for line in ("lineage model tiny/1", "rollback tiny --to 1", "serve tiny@1"):
        assert "tiny: version 1 was removed from the registry, with its files and its lineage" in refusal(line)
    with pytest.raises(InputError, match="version 1 was removed from the registry"):
        promotion.rollback("tiny", 1)
    assert "no version '9'" in refusal("lineage model tiny/9")
    assert commands.bertline("rollback tiny").require(0)
    assert ledger.champion("tiny") == 2
    assert not ledger.read("tiny").damage


def _check_that_what_a_service_answers_with_stays() -> None:
    with http_service.serving({"old": Source("tiny", "1"), "tiny": Source("tiny")}) as address:
        answer = answered(f"prune tiny --keep 1 --service {address}")
        assert answer["would"] == [4]
        assert answer["stays"]["1"] == ["is served"]
        assert answer["stays"]["3"] == ["is the champion", "is served"]
    assert f"the service at {address}: its versions cannot be read" in refusal(f"prune tiny --service {address}")


def test_the_champions_that_stay_are_those_of_the_events_and_those_that_a_rollback_returns_to(checkout: Path) -> None:
    ledgers.register_versions()
    for action, number in (("promote", 1), ("promote", 2), ("promote", 3), ("rollback", 2)):
        ledger.append("m", ledger.read("m"), action, number, "a test")
    plan = pruning.planned("m", 2)
    mlflow.set_tracking_uri(None)
    assert set(plan.stays) == {1, 2, 3, 4}
    assert plan.stays[2] == ["is the champion"]
    assert plan.stays[1] == plan.stays[3] == ["one of the last champions"]
    assert plan.stays[4] == ["is the newest"]


def test_a_removal_without_a_champion_is_not_in_the_ledger_and_says_so(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(pruning, "say", lines.append)
    ledgers.register_versions()
    plan = pruning.planned("m", 1)
    assert pruning.prune(plan, remove=False)["removed"] == lines == []
    assert pruning.prune(plan, remove=True)["removed"] == [1, 2, 3]
    assert lines == ["not entered in the ledger: m has no champion"]
    assert not ledger.read("m").kept
    mlflow.set_tracking_uri(None)


@pytest.mark.usefixtures("registered")
def test_a_promotion_and_a_removal_at_once_are_in_one_order() -> None:
    """Whoever is second is refused, and nothing is lost."""
    plan, known = pruning.planned("tiny", 1), ledger.read("tiny")
    assert [version.version for version in plan.goes] == [1, 4]
    ledger.append("tiny", known, "promote", 1, "a promotion after the plan")
    with pytest.raises(InputError, match=r"the removal of version 1, version 4 was not recorded: .* made version 1"):
        pruning.prune(plan, remove=True)
    assert len(registry.versions("tiny")) == 5
    known = ledger.read("tiny")
    assert pruning.prune(pruning.planned("tiny", 2), remove=True)["removed"] == [4]
    with pytest.raises(InputError, match="was first and entered the removal of version 4; run the command again"):
        ledger.append("tiny", known, "promote", 3, "a promotion that does not know of the removal")
    assert ledger.champion("tiny") == 1
