"""An exported model's head alone gives a row the bits of the whole model, from states that depend on no other row."""

from pathlib import Path

import numpy as np
import pytest

from pipelines.core.errors import InputError
from pipelines.export import onnx_export
from pipelines.inference import encoder_states
from pipelines.inference.encoder_states import DividedModel
from pipelines.inference.predictor import Predictor
from tests.contracts.test_exact_rows import FAMILIES
from tests.support import exported, kinds

pytestmark = pytest.mark.slow
OTHERS = [pytest.param(family, "single", "native", None, marks=pytest.mark.soak) for family in FAMILIES[1:]]
MODELS = [
    ("bert", "single", "native", None),
    ("modernbert", "pair", "linear", "compare"),
    ("modernbert", "regression", "mlp", "mean"),
    pytest.param("bert", "pair", "bilstm", "cls", marks=pytest.mark.soak),
    pytest.param("bilstm", "single", "linear", "ends", marks=pytest.mark.soak),
    *OTHERS,
]


@pytest.mark.parametrize(("family", "kind", "head", "pooling"), MODELS)
def test_the_head_alone_has_the_bits_of_the_whole(
    family: str, kind: str, head: str, pooling: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_same_bits(exported.of_teacher(tmp_path_factory, family, kind, head, pooling) / "onnx", kind)


@pytest.mark.parametrize("method", ["dynamic_int8", pytest.param("static_int8", marks=pytest.mark.soak)])
def test_the_head_alone_of_an_int8_model_has_the_bits_of_the_whole(
    method: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_same_bits(exported.of_teacher(tmp_path_factory, "bert", method=method) / "onnx", "single")


def assert_same_bits(out: Path, kind: str) -> None:
    """Batches of all sizes, in one thread and in two, against the model that returns logits only."""
    predictor, rows = Predictor.load(out, threads=1), kinds.rows(kind)
    divided = [DividedModel(Predictor.load(out, threads=count)) for count in (1, 2)]
    whole = predictor.predict(rows).drop_columns("id")
    _, states = divided[0].predict(rows)
    assert states.shape == (24, divided[0].width)
    assert len(np.unique(states, axis=0)) > 4, "the rows have different states"
    rng = np.random.default_rng(3)
    many = np.resize(np.arange(24), 2049)
    for size in (1, 2, 3, 8, 24, 2049):
        places = rng.permutation(many)[:size]
        some = rows.take(places).drop_columns("id")
        for model in divided:
            answers, computed = model.predict(some.slice(0, 24))
            assert answers.equals(whole.take(places[:24]))
            assert computed.tobytes() == states[places[:24]].tobytes()
            assert model.answer(some, states[places]).equals(whole.take(places))


def test_a_model_without_states_is_refused(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = exported.models(tmp_path_factory) / "tagging-onnx"
    with pytest.raises(InputError, match="kind tagging reads more than one vector a row, so no states can be stored"):
        encoder_states.digest(out)
    folder = exported.of_teacher(tmp_path_factory, "bert") / "teacher"
    with pytest.raises(InputError, match=r"it has no model\.onnx, and states are those of an exported model"):
        encoder_states.digest(folder)
    monkeypatch.setattr(onnx_export.head_features, "VECTOR_KINDS", ())
    before = export(folder, checkout / "before")
    with pytest.raises(InputError, match=r"an earlier release exported it, .*; export and register it again"):
        encoder_states.digest(before)
    assert Predictor.load(before).predict(kinds.rows("single").slice(0, 2)).num_rows == 2


def test_the_digest_is_of_what_decides_on_states(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = exported.of_teacher(tmp_path_factory, "bert")
    out = made / "onnx"
    digest = encoder_states.digest(out)
    again = export(made / "teacher", checkout / "again")
    assert encoder_states.digest(again) == digest
    words = (again / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (again / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2]]) + "\n", encoding="utf-8")
    assert encoder_states.digest(again) != digest, "two words have changed places"
    import onnx

    proto = onnx.load(out / "model.onnx")
    for tensor in proto.graph.initializer:  # each weight below the features counts, and none above
        numbers = onnx.numpy_helper.to_array(tensor).copy()
        if numbers.dtype != np.float32 or numbers.ndim == 0:
            continue
        before = tensor.SerializeToString()
        numbers.flat[-1] += 1
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))
        onnx.save(proto, again / "model.onnx")
        (again / "vocab.txt").write_bytes((out / "vocab.txt").read_bytes())
        of_head = "pooler" in tensor.name or "classifier" in tensor.name
        assert (encoder_states.digest(again) == digest) == of_head, tensor.name
        tensor.ParseFromString(before)


def export(folder: Path, out: Path) -> Path:
    out.mkdir()
    onnx_export.export(folder, out, 18)
    return out
