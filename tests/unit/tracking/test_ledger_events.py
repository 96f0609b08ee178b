"""What events of a ledger come to, whoever wrote them when; and that a change of them shows."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tracking import ledger_events
from pipelines.tracking.ledger_events import Event, Kept, State


def event(known: State, version: int, action: ledger_events.Action = "promote", name: str = "") -> Event:
    after, digest = known.last
    seen = ledger_events.end(known.kept)
    name = name or f"{after}-{version}"
    return Event(name, action, version, known.champion, after, digest, "me", "a test", seen=seen)


def written(*versions: int) -> list[Kept]:
    """A ledger in which each version was promoted after the one before."""
    rows: list[Kept] = []
    for number, version in enumerate(versions, start=1):
        rows.append(Kept(number, 1000 * number, event(ledger_events.replay(rows), version).text()))
    return rows


@given(st.data())
def test_every_counted_event_names_the_one_before_it(data: st.DataObject) -> None:
    """Writers read at any time and write at any later time, and a server numbers what they write."""
    rows: list[Kept] = []
    read = [State()] * 3
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        writer = data.draw(st.integers(0, 2))
        if data.draw(st.booleans()):
            read[writer] = ledger_events.replay(rows)
        version = data.draw(st.integers(1, 4))
        back = version in read[writer].champions and data.draw(st.booleans())
        written_event = event(read[writer], version, "rollback" if back else "promote", f"{number}")
        rows.append(Kept(number, 1000, written_event.text()))
    state = ledger_events.replay(rows)
    assert len(state.entries) + len(state.overtaken) == len(rows)
    assert not state.damage
    before = State()
    for i, entry in enumerate(state.entries):
        assert (entry.event.after, entry.event.digest) == before.last
        assert entry.event.previous == before.champion
        before = ledger_events.replay(rows[: entry.number])
        assert before.entries == state.entries[: i + 1]
        assert before.champion == entry.event.version
    for lost in state.overtaken:
        assert any(lost.event.after < entry.number < lost.number for entry in state.entries)


def test_a_rollback_goes_back_and_a_promotion_on() -> None:
    rows = written(1, 2, 3)
    for action, version, champions in (
        ("rollback", 2, (1, 2)),
        ("promote", 4, (1, 2, 4)),
        ("rollback", 1, (1,)),
        ("rollback", 4, (1, 4)),  # one that was champion, and is not among those before any more
        ("promote", 1, (1, 4, 1)),
        ("rollback", 4, (1, 4)),
    ):
        rows.append(Kept(len(rows) + 1, 9000, event(ledger_events.replay(rows), version, action).text()))
        assert ledger_events.replay(rows).champions == champions


def test_of_two_at_the_same_moment_the_first_counts() -> None:
    rows = written(1)
    known = ledger_events.replay(rows)
    rows += [Kept(2, 2000, event(known, 2, name="a").text()), Kept(3, 2000, event(known, 3, name="b").text())]
    state = ledger_events.replay(rows)
    assert state.champion == 2
    assert [lost.event.id for lost in state.overtaken] == ["b"]


def test_an_event_that_the_server_took_twice_counts_once() -> None:
    """MLflow's client sends a request again whose answer was lost."""
    rows = written(1)
    known = ledger_events.replay(rows)
    first, second = event(known, 2, name="a").text(), event(known, 3, name="b").text()
    rows += [Kept(number, 2000, text) for number, text in enumerate([first, first, second, second, first], start=2)]
    rows.append(Kept(7, 3000, event(ledger_events.replay(rows), 4).text()))
    state = ledger_events.replay(rows)
    assert [entry.number for entry in state.entries] == [1, 2, 7]
    assert state.champions == (1, 2, 4)
    assert [entry.number for entry in state.overtaken] == [4]
    assert [entry.number for entry in state.repeated] == [3, 5, 6]
    assert not state.damage


def test_changed_or_removed_events_are_noticed() -> None:
    rows = written(1, 2, 3)
    changed = json.dumps(json.loads(rows[1][2]) | {"version": 9})
    assert ledger_events.replay([rows[0], Kept(2, 2000, changed), rows[2]]).damage == (
        "event 2 was changed after event 3 named it",
    )
    removed = ledger_events.replay([rows[0], rows[2]])
    assert removed.damage == ("event 2 was removed",)
    assert removed.champion == 3  # whose writer knew the event that is gone
    broken = ledger_events.replay([rows[0], Kept(2, 2000, "{}"), rows[2]])
    assert broken.damage == ("event 2 was changed: it is no longer an event",)
    assert broken.champion == 3


def test_a_changed_note_or_overtaken_event_is_noticed() -> None:
    rows = written(1, 2)
    known = ledger_events.replay(rows)
    about = known.entries[-1].event
    note = replace(about, id="a note", served={"event": about.id}, seen=ledger_events.end(rows))
    rows += [Kept(3, 3000, note.text()), Kept(4, 3000, event(known, 3).text()), Kept(5, 3000, event(known, 4).text())]
    rows.append(Kept(6, 4000, event(ledger_events.replay(rows), 5).text()))
    state = ledger_events.replay(rows)
    assert (state.champions, [entry.number for entry in state.overtaken], state.damage) == ((1, 2, 3, 5), [5], ())
    forged = event(known, 9, name="forged").text()
    changed = ledger_events.replay([*rows[:4], Kept(5, 3000, forged), *rows[5:]])
    assert changed.damage == ("event 5 was changed after event 6 named it",)
    later = [*rows[:3], Kept(4, 4000, event(ledger_events.replay(rows[:3]), 3).text())]
    changed = ledger_events.replay([*rows[:2], Kept(3, 3000, forged), later[3]])
    assert (changed.champion, changed.damage) == (9, ("event 3 was changed after event 4 named it",))
    odd = replace(event(ledger_events.replay(rows), 6), seen="no number")
    assert ledger_events.replay([*rows, Kept(7, 5000, odd.text())]).damage == ()


def test_a_clock_that_is_set_back_does_not_change_the_order() -> None:
    rows = [Kept(number, {1: 5000, 2: 3000, 3: 6000}[number], text) for number, _, text in written(1, 2, 3)]
    state = ledger_events.replay(rows)
    assert [entry.at_ms for entry in state.entries] == [5000, 5000, 6000]
    assert state.at(4999) is None
    champion_at = {5000: 2, 5999: 2, 6000: 3, 9000: 3}
    assert {at: entry.event.version for at in champion_at if (entry := state.at(at))} == champion_at


def test_a_noted_end_that_vanished_is_reported() -> None:
    rows = written(1, 2, 3)
    noted = ledger_events.end(rows)
    assert ledger_events.missing(rows, noted) == ledger_events.missing(rows, "") == ledger_events.missing([], "") == ""
    assert ledger_events.missing([*rows, rows[0]._replace(number=4)], noted) == "", "a later event is not noted yet"
    changed = [*rows[:2], rows[2]._replace(text=rows[2].text.replace("me", "you"))]
    for others in (rows[:2], changed, []):
        assert ledger_events.missing(others, noted) == "event 3, which was the last one, was changed or removed"


def test_the_content_of_a_version_is_that_of_its_first_event() -> None:
    rows: list[Kept] = []
    for number, held in enumerate(({}, {"model": "a"}, {"model": "b"}), start=1):
        first_event = replace(event(ledger_events.replay(rows), 1, name=str(number)), content=held)
        rows.append(Kept(number, number, first_event.text()))
    assert ledger_events.replay(rows).content(1) == {"model": "a"}
    assert ledger_events.replay(rows).content(2) == {}


def test_a_removal_changes_no_champion_but_the_order() -> None:
    rows = written(1, 2)
    before = ledger_events.replay(rows)
    removal = replace(event(before, 2, name="a removal"), action="rollback", removed=(1,))
    rows.append(Kept(3, 3000, removal.text()))
    after = ledger_events.replay(rows)
    assert (after.champions, after.entries, after.damage) == (before.champions, before.entries, ())
    assert [entry.event.removed for entry in after.removals] == [(1,)]
    assert after.last == (3, ledger_events.digest(rows[2].text))
    rows.append(Kept(4, 4000, event(before, 1).text()))  # of a writer who had not read that version 1 goes
    overtaken = ledger_events.replay(rows)
    assert (overtaken.champions, len(overtaken.overtaken)) == (before.champions, 1)
    # readers that know no removals leave the key out
    unknown = {name: value for name, value in json.loads(removal.text()).items() if name != "removed"}
    old = ledger_events.replay([*rows[:2], Kept(3, 3000, json.dumps(unknown))])
    assert (old.champions, old.overtaken, old.damage) == (before.champions, (), ())
    # what names another champion is no removal, whatever else it says
    daring = replace(removal, version=3, action="promote")
    assert ledger_events.replay([*rows[:2], Kept(3, 3000, daring.text())]).champions == (1, 2, 3)


def test_a_note_changes_neither_the_champion_nor_the_order() -> None:
    rows = written(1, 2)
    before = ledger_events.replay(rows)
    about = before.entries[-1].event
    note = replace(about, id="a note", served={"event": about.id, "summary": "seen"})
    rows.append(Kept(3, 3000, note.text()))
    noted = ledger_events.replay(rows)
    assert (noted.champions, noted.last, noted.entries, noted.damage) == (
        before.champions,
        before.last,
        before.entries,
        (),
    )
    assert noted.served(noted.entries[-1])["summary"] == "seen"
    assert noted.served(noted.entries[0]) == {}
    rows.append(Kept(4, 4000, event(before, 3).text()))  # of a writer who had not read the note
    assert ledger_events.replay(rows).champions == (1, 2, 3)
    # readers that know no notes leave the key out
    unknown = {name: value for name, value in json.loads(note.text()).items() if name != "served"}
    old = ledger_events.replay([*rows[:2], Kept(3, 3000, json.dumps(unknown))])
    assert (old.champions, len(old.overtaken), old.damage) == (before.champions, 1, ())
