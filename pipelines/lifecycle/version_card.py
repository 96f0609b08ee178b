"""The facts of the card of a registered version: those of its model, and the decisions about it since."""

import json
from pathlib import Path
from typing import Any

from pipelines.evaluation import gates
from pipelines.lifecycle import approval, history, model_card
from pipelines.lifecycle.model_card import Facts, mapping
from pipelines.reports import model_card_text
from pipelines.tracking import ledger, registry
from pipelines.tracking.registered_version import FOLDERS, Version

TAG = "card"  # of a version: the facts of its model at its registration, as JSON
LONGEST = 100_000  # characters of a tag in MLflow's databases


def of_version(name: str, label: str) -> Facts:
    """The facts of a registered version by its alias or number, with those of its tags and of the ledger.

    Those of its model are as they were when it was registered, or, for a version without them, as this checkout's files
    say. Raises InputError if there is no such version, or it has no model folder, as a cascade.
    """
    version = registry.labelled(name, label)
    rules = model_card.entries("promote").get(name, {})
    about = {"name": name, "version": version.version, **_registered(version)}
    stored = mapping(_json(version.tags.get(TAG, ""))) | model_card.declared(rules)
    if _is_card(stored | about):
        return stored | about
    folder = registry.folder(version, next(runtime for runtime, kind in FOLDERS.items() if kind == "model"))
    return model_card.described(folder, version.tags.get("run", ""), rules) | about


def tags(folder: Path, run: str, rules: Facts) -> dict[str, str]:
    """The tag with the facts of a model that is about to be registered; none if they are too long for a tag."""
    facts = model_card.described(folder, run, rules)
    for key in ("", "slices", "classes"):
        facts["evaluation"].pop(key, None)
        if len(text := json.dumps(facts, ensure_ascii=False)) <= LONGEST:
            return {TAG: text}
    return {}


def _is_card(facts: Facts) -> bool:
    """Return whether a card can be written of these facts; whoever may register may write the tag."""
    try:
        return bool(model_card_text.markdown(facts))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def _registered(version: Version) -> Facts:
    """The record of a version: its registration, its approval and its events in the ledger."""
    state = ledger.read(version.name)
    events = history.told(version.name, state, {version.version})["events"]
    tags, keys = version.tags, ("at", "action", "actor", "reason")
    return {
        "commit": tags.get("git_commit", ""),
        "dirty": tags.get("git_dirty") == "true",
        "md5": {key: tags[key] for key in registry.SAME if tags.get(key)},
        "stages": _stages(tags.get("lineage", "")),
        "champion": state.champion == version.version,
        "approved_by": approval.approver(version),
        "events": [{key: event[key] for key in keys} for event in events if event["version"] == version.version],
        "gate": [str(finding) for finding in gates.findings(mapping(_json(tags.get("verdict", ""))))],
    }


def _stages(lineage: str) -> Facts:
    """Each path that a stage before the version wrote -> its md5, from the version's tag."""
    stages = _json(lineage)
    wrote = [mapping(mapping(stage).get("wrote")) for stage in stages] if isinstance(stages, list) else []
    return {path: md5 for paths_of_stage in wrote for path, md5 in paths_of_stage.items()}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
