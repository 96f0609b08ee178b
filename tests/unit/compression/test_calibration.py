"""Ranges of inputs: percentiles of a histogram by hand, and what a layer is really given."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.compression import calibration
from pipelines.compression.context import Context, Data
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.models.quantization import matrices
from pipelines.text import tokenizer
from pipelines.training.distributed import fitting
from tests.support import kinds


def test_a_percentile_leaves_out_as_much_at_either_end() -> None:
    counts = np.array([1, 0, 48, 50, 0, 0, 0, 1])  # of 100
    assert calibration.within(counts, (-4.0, 4.0), 100) == (-4.0, 4.0)
    assert calibration.within(counts, (-4.0, 4.0), 98) == (-2.0, 0.0), "one at either end"
    assert calibration.within(counts, (-4.0, 4.0), 99) == (-4.0, 4.0), "half a value at either end"


@pytest.fixture
def context(checkout: Path) -> Context:
    model, data = kinds.model_and_rows("single", "bert", checkout)
    source = OpenedFolder(checkout / "encoder")
    task, texts = kinds.TASKS["single"], tokenizer.load(source)
    with fitting("compress", "t", Resources()) as fit:
        return Context(model, task, Data(data, None, texts.pad_id), texts, None, 1, fit, checkout, source)


def test_a_range_is_that_of_the_inputs_without_padding(context: Context) -> None:
    inputs_seen: list[torch.Tensor] = []
    name = "bert.encoder.layer.1.output.dense"
    layer = context.teacher.get_submodule(name)
    hook = layer.register_forward_pre_hook(lambda _, inputs: inputs_seen.append(inputs[0]))
    ranges = calibration.ranges(context, context.teacher, rows=300, percentile=100)
    hook.remove()
    data = context.data.train
    lengths = np.sort(data.lengths)[::-1]
    assert lengths[0] > lengths[-1], "some are padded"
    inside = torch.from_numpy(np.arange(inputs_seen[0].shape[1]) < lengths[:, None])
    assert inputs_seen[0].shape[0] == len(data) == 24
    values = inputs_seen[0][inside]
    assert ranges[name] == (float(values.min()), float(values.max()))
    assert ranges.keys() == matrices.linears(context.teacher).keys()


def test_a_percentile_s_range_holds_that_share(context: Context) -> None:
    whole = calibration.ranges(context, context.teacher, 300, 100)
    ranges = calibration.ranges(context, context.teacher, 300, 90)
    assert len(ranges) > 10
    for name, (low, high) in ranges.items():
        assert whole[name][0] <= low < high <= whole[name][1]
        assert high - low < whole[name][1] - whole[name][0]


def test_fewer_rows_are_drawn_with_the_seed(context: Context) -> None:
    few = calibration.ranges(context, context.teacher, 4, 100)
    assert few == calibration.ranges(context, context.teacher, 4, 100)
    whole = calibration.ranges(context, context.teacher, 300, 100)
    assert all(whole[name][0] <= low and high <= whole[name][1] for name, (low, high) in few.items())
    assert few != whole
