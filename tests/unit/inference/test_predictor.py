"""The predictor's three pieces: together they are `predict`, and the middle one takes several requests at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipelines.checkpoints import folder as model_folder
from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.inference import decoding, runtimes
from pipelines.inference.predictor import Predictor
from tests.support import kinds, tiny

WIDTHS = {"single": (3,), "pair": (3,), "regression": (1,), "choice": (1,), "span": (2,), "tagging": (7,)}  # of outputs


def rows(kind: str) -> pa.Table:
    """Short and long ones; of the longest, contexts have several windows and texts to tag several parts."""
    name = "context" if kind == "span" else "text"
    longer = [{**row, name: row[name] * (1 + i % 4 * 6)} for i, row in enumerate(kinds.rows(kind).to_pylist())]
    return pa.Table.from_pylist(longer, schema=schema.ROWS[kind])


def same(row: dict[str, Any], other_row: dict[str, Any]) -> None:
    assert row.keys() == other_row.keys()
    for name, value in row.items():
        exact = isinstance(value, str) or name in ("entities", "start")
        assert other_row[name] == (value if exact else pytest.approx(value, abs=1e-5)), name


@pytest.mark.parametrize("kind", schema.PREDICTIONS)
def test_requests_together_are_answered_as_one_by_one(kind: str, checkout: Path) -> None:
    predictor = Predictor.load(tiny.classifier(checkout / "model", kind))
    table = rows(kind)
    requests = [table.slice(0, 7), table.slice(7, 1), table.slice(8)]
    encoded = [predictor.encode(request) for request in requests]
    outputs = predictor.forward(encoded)
    together = [predictor.decode(*request) for request in zip(requests, encoded, outputs, strict=True)]
    assert [table.column("id") for table in together] == [request.column("id") for request in requests]
    alone = [row for request in requests for row in predictor.predict(request).to_pylist()]
    for row, other_row in zip(alone, pa.concat_tables(together).to_pylist(), strict=True):
        same(row, other_row)
    assert len(alone) == 24


@pytest.mark.parametrize("kind", schema.PREDICTIONS)
def test_predict_is_the_three_pieces(kind: str, checkout: Path) -> None:
    predictor = Predictor.load(tiny.classifier(checkout / "model", kind))
    table = rows(kind)
    encoded = predictor.encode(table)
    (outputs,) = predictor.forward([encoded])
    assert predictor.decode(table, encoded, outputs).equals(predictor.predict(table))
    assert predictor.predict(table.slice(0, 0)).num_rows == 0
    ids = encoded.column("id").to_pylist()
    assert list(dict.fromkeys(ids)) == [str(i) for i in range(24)]
    assert (len(ids) > 24) == (kind in ("span", "tagging"))
    assert len(outputs) == (3 * 24 if kind == "choice" else len(ids))
    lengths = encoded.column("length").to_pylist()
    for i, output in enumerate(outputs):
        assert output.dtype == np.float32
        assert output.shape[-1:] == WIDTHS[kind]
        assert output.ndim == (2 if kind in ("span", "tagging") else 1)
        assert output.ndim == 1 or len(output) >= lengths[i]


def test_sequences_of_like_length_share_a_batch(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor.load(tiny.classifier(checkout / "model"))
    batches: list[tuple[int, ...]] = []
    logits = predictor.runtime.logits

    def counted(inputs: dict[str, np.ndarray]) -> np.ndarray:
        batches.append(inputs["input_ids"].shape)
        return logits(inputs)

    monkeypatch.setattr(predictor.runtime, "logits", counted)
    requests = [pa.table({"text": [text]}) for text in tiny.TEXTS[:4] * 2]
    encoded = [predictor.encode(request) for request in requests]
    outputs = predictor.forward(encoded)
    assert [len(output) for output in outputs] == [1] * 8
    assert len(batches) == 1
    assert batches[0][0] == 8


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_weights_that_are_no_numbers_answer_nothing(broken: float, checkout: Path) -> None:
    folder = tiny.classifier(checkout / "model")
    model, task = model_folder.load_tuned(folder)
    tensors = load_file(folder / "model.safetensors")
    name = next(tensor_name for tensor_name in tensors if tensor_name.endswith("attention.self.query.weight"))
    tensors[name][3, 5] = broken
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=f"model: {name} holds what is no number; its weights are damaged"):
        Predictor.load(folder)
    with torch.no_grad():  # as of a training that diverged
        model.get_parameter(name)[3, 5] = broken
    predictor = Predictor(runtimes.Torch.of(model, task), folder)
    with pytest.raises(InputError, match="the model returns NaN or infinity"):
        predictor.predict(pa.table({"text": ["犬"]}))


def test_a_span_of_several_windows_scores_as_in_one() -> None:
    def decoded(*windows: tuple[int, int]) -> dict[str, Any]:
        """The answer by windows of a context with a token for each character; its fifth one is likely."""
        parts, outputs = [], []
        for first, last in windows:
            starts = [0, 0, *range(first, last), 0]
            parts.append({"id": "0", "first_length": 2, "starts": starts, "ends": [start + 1 for start in starts]})
            outputs.append(np.full((len(starts), 2), -10, np.float32))
            if first <= 4 < last:
                outputs[-1][2 + 4 - first] = 8 - first
        table = pa.table({"question": ["?"], "context": ["abcdefghij"]})
        return decoding.span(table, pa.RecordBatch.from_pylist(parts), outputs, kinds.TASKS["span"]).to_pylist()[0]

    alone = decoded((0, 10))
    assert (alone["answer"], alone["score"]) == ("e", pytest.approx(1))
    for windows in (((0, 6), (2, 8), (4, 10)), ((4, 10), (2, 8), (0, 6))):
        assert decoded(*windows) == {**alone, "score": pytest.approx(alone["score"])}
