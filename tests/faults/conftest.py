"""A service under attack, and the check after each test that it is unharmed."""

from collections.abc import Iterator

import pytest

from tests.support import attacked
from tests.support.attacked import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with attacked.running(tmp_path_factory.mktemp("models")) as running:
        yield running


@pytest.fixture
def unharmed(service: Service) -> Iterator[None]:
    yield
    attacked.check_unharmed(service)
