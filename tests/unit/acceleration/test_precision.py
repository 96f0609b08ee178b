"""In which precision a forward pass is computed."""

import pytest
import torch

from pipelines.acceleration.precision import autocast, is_bf16


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is bf16 there")
def test_auto_is_fp32_without_a_gpu() -> None:
    product = torch.ones(2, 2)
    for precision, dtype in (("auto", torch.float32), ("fp32", torch.float32), ("bf16", torch.bfloat16)):
        assert is_bf16(precision) == (dtype == torch.bfloat16)
        with autocast(precision):
            assert (product @ product).dtype == dtype
