"""Approval: a person's yes to a version, which the rule `approval` of the gate asks for; who gave it, when and why."""

import time
from datetime import UTC, datetime

from pipelines.core.errors import UsageError
from pipelines.tracking import ledger, registry, version_tags
from pipelines.tracking.registry_snapshot import CHALLENGER

APPROVED = "approved"  # the tag that the gate reads; the others say who set it
BY = "approved_by"


def approve(name: str, number: int | None, reason: str = "") -> registry.Version:
    """Approve a version of `name`, by default the challenger; returns the version.

    Raises InputError if there is no such version, UsageError if the reason is longer than a tag.
    """
    version = registry.version(name, number) if number is not None else registry.get(name, CHALLENGER)
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    who = f"{ledger.actor()} at {at}{f': {reason}' if reason else ''}"
    if len(who) > version_tags.DESCRIBED:
        raise UsageError(f"--reason: {len(reason):,} characters; write fewer than {version_tags.DESCRIBED:,}")
    version_tags.tag(version, {BY: who, APPROVED: "true"})
    return version


def approver(version: registry.Version) -> str:
    """The person who approved a version, with the time and the reason; "" if nobody has, or a tag alone says so."""
    return version.tags.get(BY, "") if is_approved(version) else ""


def is_approved(version: registry.Version) -> bool:
    return version.tags.get(APPROVED) == "true"
