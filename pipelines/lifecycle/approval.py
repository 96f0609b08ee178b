"""Approval: a person's yes to a version, which the rule `approval` of the gate asks for; who gave it, when and why."""

import time
from datetime import UTC, datetime

from pipelines.core.errors import InputError
from pipelines.lifecycle import registry_refusals
from pipelines.tracking import ledger, registry, version_tags
from pipelines.tracking.registry_snapshot import CHALLENGER

APPROVED = "approved"  # the tag that the gate reads; the others say who set it
BY = "approved_by"


def approve(name: str, number: int | None, reason: str = "") -> registry.Version:
    """Approve a version of `name`, by default the challenger; returns the version.

    Raises InputError if there is no such version or somebody has approved it, UsageError if the reason is too long.
    """
    registry_refusals.require_reason(reason)
    version = registry.version(name, number) if number is not None else registry.get(name, CHALLENGER)
    if by := approver(version):
        raise InputError(f"{version} is approved already, by {by}")
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    version_tags.tag(version, {BY: f"{ledger.actor()} at {at}{f': {reason}' if reason else ''}", APPROVED: "true"})
    return version


def sentence(version: registry.Version) -> str:
    """The sentence about a version that was approved just now, with the command that compares it with the champion."""
    if ledger.champion(version.name) == version.version:
        return f"{version} is approved; it is the champion"
    challenger = registry.aliases_of(version.name).get(CHALLENGER)
    option = "" if str(challenger) == str(version.version) else f" --version {version.version}"
    return f"{version} is approved; `bertline promote {version.name}{option}` compares it with the champion"


def approver(version: registry.Version) -> str:
    """The person who approved a version, with the time and the reason; "" if nobody has, or a tag alone says so."""
    return version.tags.get(BY, "") if is_approved(version) else ""


def is_approved(version: registry.Version) -> bool:
    return version.tags.get(APPROVED) == "true"
