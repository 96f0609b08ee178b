"""What flows stand on: MLflow's database is there, as it is when MLflow has made it."""

from pathlib import Path

import pytest

from tests.support import stores


@pytest.fixture
def checkout(checkout: Path) -> Path:
    stores.place_in(checkout)
    return checkout
