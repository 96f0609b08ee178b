"""The frontier: no point of it is beaten, every other point is."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.reports.frontier import Point, beats, frontier

few = st.integers(1, 6).map(lambda n: n / 4)  # so that costs and scores meet
POINTS = st.lists(st.builds(Point, st.text("ab", max_size=2), few, few), max_size=12)


def test_a_frontier_agrees_with_one_by_hand() -> None:
    cheap, even, dear = Point("cheap", 1, 0.5), Point("even", 2, 0.7), Point("dear", 4, 0.9, is_teacher=True)
    beaten = [Point("as dear", 2, 0.6), Point("as good", 3, 0.7), Point("worse", 8, 0.1)]
    assert frontier([dear, *beaten, even, cheap]) == [cheap, even, dear]
    assert frontier([]) == []


def test_equal_points_are_both_on_it() -> None:
    same = [Point("a", 1, 0.5), Point("b", 1, 0.5)]
    assert frontier([*same, Point("c", 1, 0.4)]) == same


@given(POINTS)
def test_none_of_it_is_beaten_and_every_other_is(points: list[Point]) -> None:
    unbeaten = frontier(points)
    assert bool(unbeaten) == bool(points)
    assert [p.x for p in unbeaten] == sorted(p.x for p in unbeaten)
    assert not any(beats(point, other) for point in points for other in unbeaten)
    others = [point for point in points if point not in unbeaten]
    assert all(any(beats(point, other) for point in unbeaten) for other in others)
    assert len(unbeaten) + len(others) == len(points)


@given(POINTS)
def test_their_order_does_not_matter(points: list[Point]) -> None:
    assert frontier(points) == frontier(points[::-1])
