"""Packed weights: bits in a row, and a range for each group, by hand and for any matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pipelines.models.quantization import packed

BITS = st.integers(2, 8)


def test_numbers_stand_in_a_row_of_bits() -> None:
    numbers = np.array([1, 2, 3, 0, 2], np.uint8)
    assert packed.pack(numbers, 2).tolist() == [0b01101100, 0b10000000]
    assert packed.pack(numbers, 3).tolist() == [0b00101001, 0b10000100]


@given(BITS, st.lists(st.integers(0, 255), max_size=50))
def test_what_is_packed_is_unpacked_again_and_takes_no_more_than_its_bits(bits: int, values: list[int]) -> None:
    numbers = (np.array(values, np.int64) % 2**bits).astype(np.uint8)
    bytes_packed = packed.pack(numbers, bits)
    assert len(bytes_packed) == -(-len(numbers) * bits // 8)
    assert packed.unpack(bytes_packed, bits, len(numbers)).tolist() == numbers.tolist()


def test_a_group_s_range_is_from_its_least_to_its_greatest_weight() -> None:
    weight = torch.tensor([[0.0, 3.0, -1.0], [1.0, 2.0, 0.5], [5.0, 5.0, 5.0]])
    numbers, step, least = packed.Grid(bits=2, rows=2).encode(weight)
    assert least.tolist() == [[-1.0], [5.0]]
    assert step.tolist() == [[pytest.approx(4 / 3)], [0.0]]
    assert numbers.tolist() == [[1, 3, 0], [2, 2, 1], [0, 0, 0]]  # (w + 1) / (4 / 3), rounded
    decoded = packed.Grid(2, 2).decode(numbers, step, least)
    assert decoded.numpy() == pytest.approx(np.array([[1 / 3, 3, -1], [5 / 3, 5 / 3, 1 / 3], [5, 5, 5]]), abs=1e-6)


def test_groups_may_be_parts_of_a_row() -> None:
    weight = torch.tensor([[0.0, 15.0, 100.0, 400.0, 7.0]])
    numbers, step, least = packed.Grid(bits=4, rows=1, columns=2).encode(weight)
    assert least.tolist() == [[0.0, 100.0, 7.0]]
    assert step.tolist() == [[1.0, 20.0, 0.0]]
    assert numbers.tolist() == [[0, 15, 0, 15, 0]]


@given(BITS, st.integers(1, 9), st.integers(0, 9), st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_no_weight_moves_by_more_than_half_a_step(
    bits: int, rows: int, columns: int, height: int, width: int, seed: int
) -> None:
    weight = torch.from_numpy(np.random.default_rng(seed).normal(size=(height, width)).astype(np.float32))
    grid = packed.Grid(bits, rows, columns)
    numbers, step, _ = grid.encode(weight)
    assert numbers.shape == weight.shape
    assert step.shape == (-(-height // min(rows, height)), -(-width // min(columns or width, width)))
    step_of_weight = step.repeat_interleave(min(rows, height), 0)[:height]
    step_of_weight = step_of_weight.repeat_interleave(min(columns or width, width), 1)[:, :width]
    assert ((grid.rounded(weight) - weight).abs() <= step_of_weight / 2 + 1e-5).all()


@given(BITS, st.integers(1, 9), st.integers(0, 9), st.integers(1, 40), st.integers(0, 99))
def test_some_rows_are_rounded_as_all_are(bits: int, rows: int, columns: int, height: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    weight = torch.from_numpy(chance.normal(size=(height, 5)).astype(np.float32))
    numbers = torch.from_numpy(chance.integers(0, height, (2, 3)))
    grid = packed.Grid(bits, rows, columns)
    assert grid.rounded_rows(weight, numbers).equal(grid.rounded(weight)[numbers])


def test_a_layer_stands_for_its_rounded_weight() -> None:
    torch.manual_seed(0)
    linear, x, grid = nn.Linear(10, 7), torch.randn(3, 10), packed.Grid(4, 2)
    packed_layer = packed.PackedLinear(linear, grid)
    assert packed_layer.matrix.packed.shape == (35,)
    assert packed_layer(x).equal(nn.functional.linear(x, grid.rounded(linear.weight.detach()), linear.bias))
    table = nn.Embedding(7, 10)
    looked_up = packed.PackedEmbedding(table, grid)(torch.tensor([3]))
    assert looked_up.equal(grid.rounded(table.weight.detach())[3:4])
