"""Starting Ray: a machine that is too busy for Ray's own limit is given a second time, and then a sentence."""

from typing import Any

import pytest
import ray

from pipelines.core.errors import InputError
from pipelines.training import workers

SLOW = Exception("The current node timed out during startup. This could happen because some of the raylet failed")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """How each call of ray.init ends, in order; Ray itself needs a machine so busy that 30 s are too few."""
    left: list[Exception | None] = []

    def init(*_: Any, **__: Any) -> None:
        if error := left.pop(0):
            raise error

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return left


def test_a_node_that_was_too_slow_is_started_once_more(outcomes: list[Exception | None]) -> None:
    outcomes += [SLOW, None]
    assert workers.start()
    assert outcomes == []


def test_a_node_that_is_too_slow_twice_is_one_sentence(outcomes: list[Exception | None]) -> None:
    outcomes += [SLOW, SLOW, None]
    with pytest.raises(InputError, match="its node did not start within 30 s, twice; this machine is too busy"):
        workers.start()


def test_what_else_ray_says_is_not_tried_again(outcomes: list[Exception | None]) -> None:
    outcomes += [Exception("no space left"), None]
    with pytest.raises(Exception, match="no space left"):
        workers.start()
    assert outcomes == [None]
