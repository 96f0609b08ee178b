"""The events of a ledger, and the state that follows from them: the champion, those before it, and what was removed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

CHAMPION = "champion"  # the alias of the version that a ledger says
SUFFIX = ".ledger"  # of a ledger's name, after the model's
TAG = "event"  # the tag of a version of NAME.ledger that holds the event
END = "end"  # the tag of NAME.ledger that records its last event, as no later event refers to that one
Action = Literal["promote", "rollback"]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]  # of a version, as MLflow's databases keep it


@dataclass(frozen=True)
class Event:
    """The part of an event that its writer sets."""

    id: str  # random, by which the writer finds the event again
    action: Action
    version: Number  # the champion from here on
    previous: Number | None  # the champion before this event
    after: Annotated[int, Field(ge=0)]  # the number of the last event that the writer had read; 0 for the first event
    digest: str  # of the event `after`
    actor: str
    reason: str
    verdict: dict[str, Any] = field(default_factory=dict)  # by the gate
    content: dict[str, str] = field(default_factory=dict)  # artifact of the version -> digest of its files
    # of a note: the id of the event that it belongs to as `event`, and how a service took that event up
    served: dict[str, Any] = field(default_factory=dict)
    # the versions that `bertline prune` removes after this event: a rollback to the champion itself, which changes
    # nothing, also for readers that know no removals
    removed: tuple[Number, ...] = ()
    # the last entry that the writer had read, as `end` has it, also of those that do not count; "" before 2026-11-29
    seen: str = ""

    def name(self) -> str:
        """The action and the versions that it is about, in words."""
        if self.removed:
            return f"the removal of {', '.join(f'version {number}' for number in self.removed)}"
        return f"{self.action} of version {self.version}"

    def text(self) -> str:
        """The event as JSON, as the server stores it."""
        return json.dumps(self.__dict__, ensure_ascii=False, sort_keys=True)


class Kept(NamedTuple):
    """An event as the server stores it: its number, the server's time, and its text."""

    number: int
    at_ms: int
    text: str


@dataclass(frozen=True)
class Entry:
    """An event with its number and time."""

    number: int  # events are numbered from 1, in the order in which the server entered them
    at_ms: int  # the server's clock, since 1970; never less than that of the entry before
    event: Event
    digest: str


@dataclass(frozen=True)
class State:
    """The state of a ledger.

    Attributes:
        entries: the events that count and say who is champion.
        removals: the events that count and remove versions. A promotion whose writer did not know one does not count.
        overtaken: events that do not count, because their writers did not know an event that was entered before them.
        repeated: second copies of events, entered because the answer to the first request was lost. They do not count.
        damage: a sentence for each event that was changed or removed afterwards.
        champions: the current champion last, and before it the champions that a rollback can return to.
        kept: all events, as the server stores them.
        notes: what was seen of services after events. A note repeats the `after` of its event, so it never counts,
            also for readers that know no notes.
    """

    entries: tuple[Entry, ...] = ()
    overtaken: tuple[Entry, ...] = ()
    repeated: tuple[Entry, ...] = ()
    damage: tuple[str, ...] = ()
    champions: tuple[int, ...] = ()
    kept: tuple[Kept, ...] = ()
    notes: tuple[Entry, ...] = ()
    removals: tuple[Entry, ...] = ()

    @property
    def champion(self) -> int | None:
        return self.champions[-1] if self.champions else None

    @property
    def last(self) -> tuple[int, str]:
        """The number and the digest of the last event that counts."""
        last = max((*self.entries[-1:], *self.removals[-1:]), key=lambda entry: entry.number, default=None)
        return (last.number, last.digest) if last else (0, "")

    def content(self, version: int) -> dict[str, str]:
        """The content of the version when it first became champion; empty if no event says so."""
        return next((e.event.content for e in self.entries if e.event.version == version and e.event.content), {})

    def served(self, entry: Entry) -> dict[str, Any]:
        """The last note on an entry; empty without one."""
        of_it = (note.event.served for note in reversed(self.notes) if note.event.served.get("event") == entry.event.id)
        return next(of_it, {})

    def at(self, at_ms: int) -> Entry | None:
        """The last entry at or before a time; None if there is none."""
        return next((entry for entry in reversed(self.entries) if entry.at_ms <= at_ms), None)


_EVENT = TypeAdapter(Event)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def end(records: Sequence[Kept]) -> str:
    """The number and the digest of the last event, as one text; "" if there are no events."""
    return f"{records[-1].number} {digest(records[-1].text)}" if records else ""


def missing(records: Sequence[Kept], noted: str) -> str:
    """A sentence if the event that was `noted` as the last one is missing; "" if it is among `records`."""
    number, _, _ = noted.partition(" ")
    if not noted or any(end([record]) == noted for record in records):
        return ""
    return f"event {number[:20]}, which was the last one, was changed or removed"


def replay(records: Sequence[Kept]) -> State:
    """Replay the events in the order of their numbers; returns the state of the ledger.

    An event counts if no other counting event lies between the event that it names in `after` and itself. So of two
    events that were written at the same time only the first counts, and every reader finds the same champion.
    """
    replayed = _Replay()
    for record in records:
        replayed.add(record)
    return replayed.state(records)


@dataclass
class _Replay:
    """The events that were replayed so far, as in `State`."""

    counted: dict[int, Entry] = field(default_factory=dict)  # by their numbers, removals among them
    removals: list[Entry] = field(default_factory=list)
    overtaken: list[Entry] = field(default_factory=list)
    repeated: list[Entry] = field(default_factory=list)
    notes: list[Entry] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    champions: tuple[int, ...] = ()
    ids: set[str] = field(default_factory=set)
    last: int = 0  # the number of the last event that counts
    expected: int = 1
    ends: dict[str, str] = field(default_factory=dict)  # number -> number and digest, of every entry that is an event

    def add(self, record: Kept) -> None:
        number, at_ms, text = record
        self.damage += [f"event {gone} was removed" for gone in range(self.expected, number)]
        self.expected = number + 1
        try:
            event = _EVENT.validate_json(text, strict=True)
        except ValidationError:
            self.damage.append(f"event {number} was changed: it is no longer an event")
            return
        self._compare(event, number)
        self.ends[str(number)] = end([record])
        earliest_ms = self.counted[self.last].at_ms if self.counted else 0
        entry = Entry(number, max(at_ms, earliest_ms), event, digest(text))
        if event.served:
            self.notes.append(entry)
        elif event.id in self.ids:
            self.repeated.append(entry)
        elif event.after < self.last:
            self.overtaken.append(entry)
            self.ids.add(event.id)
        else:
            self._count(entry)

    def _compare(self, event: Event, number: int) -> None:
        """Report the entry that the event's writer had read last if it is another one now."""
        seen = event.seen.partition(" ")[0]
        if self.ends.get(seen, event.seen) != event.seen:
            self._report(f"event {seen} was changed after event {number} named it")

    def _report(self, damage: str) -> None:
        if damage not in self.damage:
            self.damage.append(damage)

    def _count(self, entry: Entry) -> None:
        event = entry.event
        self.ids.add(event.id)
        if event.after in self.counted and self.counted[event.after].digest != event.digest:
            self._report(f"event {event.after} was changed after event {entry.number} named it")
        self.counted[entry.number], self.last = entry, entry.number
        champions = champions_after(self.champions, event)
        if event.removed and champions == self.champions:
            self.removals.append(entry)
        self.champions = champions

    def state(self, records: Sequence[Kept]) -> State:
        removals = {entry.number for entry in self.removals}
        return State(
            tuple(entry for number, entry in self.counted.items() if number not in removals),
            tuple(self.overtaken),
            tuple(self.repeated),
            tuple(self.damage),
            self.champions,
            tuple(records),
            tuple(self.notes),
            tuple(self.removals),
        )


def champions_after(before: tuple[int, ...], event: Event) -> tuple[int, ...]:
    """The champions after an event: a promotion appends its version, a rollback cuts the list after its version."""
    if event.action == "rollback" and event.version in before:
        return before[: len(before) - before[::-1].index(event.version)]
    return (*before, event.version)
