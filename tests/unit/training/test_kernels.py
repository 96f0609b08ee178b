"""Which kernel attention is computed by, batch for batch."""

from pathlib import Path

import pytest
import torch

from pipelines.models import heads
from pipelines.training.kernels import Attention, autocast
from tests import tiny
from tests.contracts.test_kinds_and_families import TASKS

LONG = {"inputs_embeds": torch.zeros(2, 300, 32), "attention_mask": torch.ones(2, 300)}
SHORT = {"input_ids": torch.zeros(2, 40)}


@pytest.mark.parametrize(
    ("precision", "short", "long"), [("fp32", "eager", "sdpa"), ("auto", "eager", "sdpa"), ("bf16", "eager", "eager")]
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has the fused kernel always")
def test_plain_attention_is_for_short_rows(precision: str, short: str, long: str, checkout: Path) -> None:
    model = heads.for_task(tiny.of_family("bert", checkout / "encoder"), TASKS["single"])
    attention = Attention(model, precision)
    for batch, name in ((LONG, long), (SHORT, short), (SHORT, short), (LONG, long)):
        attention.choose(batch)
        assert model.config._attn_implementation == model.bert.config._attn_implementation == name
    attention.restore()
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is bf16 there")
def test_auto_is_fp32_without_a_gpu() -> None:
    product = torch.ones(2, 2)
    for precision, dtype in (("auto", torch.float32), ("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(precision):
            assert (product @ product).dtype == dtype
