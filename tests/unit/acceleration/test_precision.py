"""In which precision a forward pass is computed."""

import pytest
import torch

from pipelines.acceleration import precision
from pipelines.acceleration.precision import autocast, is_bf16
from pipelines.core import cpu

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="auto is bf16 there")


@pytest.mark.parametrize("has", [False, True])
def test_a_cpu_computes_in_bf16_if_it_is_asked_to_and_has_instructions_for_it(
    has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "has_bf16", lambda: has)
    product = torch.ones(2, 2)
    for choice in ("auto", "fp32", "bf16"):
        dtype = torch.bfloat16 if choice == "bf16" and has else torch.float32
        assert is_bf16(choice) == (dtype == torch.bfloat16)
        with autocast(choice):
            assert (product @ product).dtype == dtype


def test_a_precision_other_than_asked_for_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "has_bf16", lambda: True)
    assert not any(map(precision.told, ("auto", "fp32", "bf16")))
    monkeypatch.setattr(cpu, "has_bf16", lambda: False)
    assert precision.told("auto") is precision.told("fp32") is None
    assert "fp32 is used" in str(precision.told("bf16"))
