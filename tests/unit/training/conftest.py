"""The model that trains."""

from pathlib import Path

import pytest
import torch

from tests.support import fits


@pytest.fixture
def model(checkout: Path) -> torch.nn.Module:
    return fits.model(checkout)
