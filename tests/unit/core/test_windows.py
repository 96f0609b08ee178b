"""Windows of time, and which of them a scheduled run has to do."""

import itertools
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core import params
from pipelines.core.errors import InputError, UsageError
from pipelines.core.windows import LENGTH, Every, Window, between, due
from pipelines.entries.score import Score

TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
EVERY = st.sampled_from(sorted(LENGTH))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def names(policy: str, first: str, scheduled: str, now: str, every: Every = "day") -> list[str]:
    windows = due(Window.named(first, every), policy, at(scheduled), at(now))  # type: ignore[arg-type]
    return [window.name for window in windows]


@given(TIMES, EVERY)
def test_a_time_lies_in_its_window_and_its_name_leads_back(time: datetime, every: Every) -> None:
    window = Window.at(time, every)
    assert window.begin <= time < window.end
    assert Window.named(window.name, every) == window
    assert window.before().end == window.begin


@given(TIMES, TIMES, EVERY)
def test_windows_follow_each_other_without_a_gap(time: datetime, other_time: datetime, every: Every) -> None:
    first = Window.at(min(time, other_time), every)
    last = Window.at(min(max(time, other_time), first.begin + 40 * LENGTH[every]), every)
    windows = between(first, last)
    assert (windows[0], windows[-1]) == (first, last)
    assert all(a.end == b.begin for a, b in itertools.pairwise(windows))
    assert len(windows) == 1 or between(last, first) == []


def test_windows_are_of_utc_and_weeks_begin_on_monday() -> None:
    tokyo = datetime(2026, 11, 24, 8, 59, tzinfo=timezone(timedelta(hours=9)))
    assert Window.at(tokyo, "day").name == "2026-11-23"
    assert Window.at(tokyo, "hour").name == "2026-11-23T23"
    assert Window.named("2026-11-29", "week").name == "2026-11-23"  # a Sunday
    assert Window.named("2026-11-23", "day").path("in/{window}/a.parquet") == "in/2026-11-23/a.parquet"
    with pytest.raises(UsageError, match="yesterday: not a time; write 2026-11-23"):
        Window.named("yesterday", "day")


@pytest.mark.parametrize(
    ("name", "every"),
    [("9999-12-31", "day"), ("9999-12-31T23", "hour"), ("9999-12-28", "week"), ("0001-01-01T00+01:00", "day")],
)
def test_the_calendar_has_an_end(name: str, every: Every) -> None:
    with pytest.raises(UsageError, match=rf": the {every} is not entirely within the years 1 to 9999"):
        Window.named(name, every)
    assert Window.named("9999-12-30", "day").name == "9999-12-30"


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_run_in_time_does_the_window_that_has_ended(policy: str) -> None:
    assert names(policy, "2026-11-22", "2026-11-23T01", "2026-11-23T01:05") == ["2026-11-22"]


def test_after_four_missed_days_each_policy_does_its_own() -> None:
    """The worker was away from the 19th to the 23rd, and then starts the run of the 20th, and that of the 23rd."""
    late = ("2026-11-18", "2026-11-20T01", "2026-11-23T09")
    assert names("skip", *late) == []
    assert names("latest", *late) == ["2026-11-22"]
    assert names("all", *late) == ["2026-11-18", "2026-11-19", "2026-11-20", "2026-11-21", "2026-11-22"]
    assert names("skip", "2026-11-18", "2026-11-23T01", "2026-11-23T09") == ["2026-11-22"]


@given(TIMES, TIMES, TIMES, st.sampled_from(["skip", "latest", "all"]), EVERY)
def test_nothing_is_done_that_has_not_ended_or_is_before_the_first(
    first: datetime, scheduled: datetime, now: datetime, policy: str, every: Every
) -> None:
    """Whatever the clock says: it may have been set back since the run was scheduled."""
    begin = Window.at(max(first, now - 50 * LENGTH[every]), every)
    for window in due(begin, policy, scheduled, now):  # type: ignore[arg-type]
        assert begin <= window
        assert window.end <= now


def test_every_hour_is_scored() -> None:
    assert names("all", "2026-11-23T07", "2026-11-23T09", "2026-11-23T09:30", "hour") == [
        "2026-11-23T07",
        "2026-11-23T08",
    ]


@pytest.mark.parametrize("since", ["0001-01-01", "1970-01-04"])
@pytest.mark.parametrize("every", ["hour", "week"])
def test_a_job_begins_where_weeks_are_counted_from(since: str, every: str) -> None:
    """Since the year 1 there are 17 million hours, and its first week begins before all time."""
    entry = {"model": "m", "source": "in/{window}", "target": "out/{window}", "every": every}
    with pytest.raises(InputError, match=r"since: .*1970-01-05"):
        params.parse(Score, entry | {"since": since}, "score.daily")
    assert params.parse(Score, entry | {"since": "1970-01-05"}, "score.daily").since.year == 1970
