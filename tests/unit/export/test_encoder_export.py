"""An exported encoder: torch's vectors and guesses, with the same bits whatever stands beside a text."""

import json
import shutil
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pytest
import yaml

from pipelines.core import paths
from pipelines.core.errors import InputError
from pipelines.inference import onnx_numbers
from pipelines.inference.embedding import Embedder
from pipelines.inference.encoder_runtimes import MASK_HEAD_FILE, OnnxEncoder, TorchEncoder
from pipelines.inference.fill_mask import MaskFiller
from pipelines.measurement import row_exactness
from pipelines.stages import export
from tests.support import exported, tiny

pytestmark = pytest.mark.slow
TEXTS = ["私は犬が好き。", "", "映画の公開日が決定、監督が語る" * 20, "試合は延長の末に決着した"]
MASKED = ["私は[MASK]が好き。", "[MASK]の[MASK]"]


@pytest.fixture
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.encoder(tmp_path_factory)


@pytest.fixture
def damaged(encoder: Path, tmp_path: Path) -> Path:
    """A copy of the export that a test may damage."""
    return Path(shutil.copytree(encoder / "onnx", tmp_path / "onnx"))


def vectors(embedder: Embedder, texts: list[str]) -> np.ndarray:
    return np.array(embedder.predict(pa.table({"text": texts})).column("vector").to_pylist(), np.float32)


def test_vectors_are_torchs_and_company_changes_no_bit(encoder: Path) -> None:
    by_torch, by_onnx = Embedder.load(encoder / "model"), Embedder.load(encoder / "onnx")
    assert isinstance(by_torch.runtime, TorchEncoder)
    assert isinstance(by_onnx.runtime, OnnxEncoder)
    together = vectors(by_onnx, TEXTS)
    assert together == pytest.approx(vectors(by_torch, TEXTS), abs=1e-5)
    assert np.array_equal(together, np.concatenate([vectors(by_onnx, [text]) for text in TEXTS]))
    assert row_exactness.largest_difference(by_onnx, sequences=16, partitions=4) == 0.0


def test_guesses_are_torchs_for_one_mask_and_for_several(encoder: Path) -> None:
    fillers = [MaskFiller.load(encoder / name) for name in ("model", "onnx")]
    by_torch, by_onnx = (filler.predict(pa.table({"text": MASKED})).column("guesses").to_pylist() for filler in fillers)
    assert [len(masks) for masks in by_onnx] == [1, 2]
    for expected, guesses in zip(chain(*by_torch), chain(*by_onnx), strict=True):
        assert [guess["piece"] for guess in guesses] == [guess["piece"] for guess in expected]
        assert [guess["score"] for guess in guesses] == pytest.approx([guess["score"] for guess in expected], abs=1e-5)


def test_plain_onnxruntime_opens_both_graphs(encoder: Path) -> None:
    states, head = (onnxruntime.InferenceSession(encoder / "onnx" / name) for name in ("model.onnx", MASK_HEAD_FILE))
    ids = np.ones((3, 7), np.int64)
    names = {node.name for node in states.get_inputs()}
    (of_tokens,) = states.run(["states"], dict.fromkeys(names, ids))
    assert of_tokens.shape == (3, 7, 32)
    assert head.run(["logits"], {"states": of_tokens[:, 0]})[0].shape[0] == 3


@pytest.mark.parametrize("family", ["modernbert", "xlnet", "bilstm"])
def test_an_encoder_without_a_head_embeds(
    family: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stage `export` makes it, for an entry of a section that makes encoders."""
    monkeypatch.delenv("BERTLINE_QUIET")
    entries = {"pretrain": {family: {}}, "export": {family: {}}}
    (checkout / "params.yaml").write_text(yaml.safe_dump(entries))
    folder, out = tiny.of_family(family, paths.model(family)), paths.onnx(family)
    export.main(family)
    assert json.loads((out / "parity.json").read_text())["difference"] < 1e-5
    assert "in a state" in "".join(capsys.readouterr())
    assert row_exactness.largest_difference(Embedder.load(out), sequences=8, partitions=2) == 0.0
    assert vectors(Embedder.load(out), TEXTS) == pytest.approx(vectors(Embedder.load(folder), TEXTS), abs=1e-5)
    with pytest.raises(InputError, match="the encoder has no masked-token head"):
        MaskFiller.load(out)


def test_another_runtime_is_refused(encoder: Path) -> None:
    with pytest.raises(InputError, match="it is an export, which torch does not open; name the folder that it was"):
        Embedder.load(encoder / "onnx", "torch")
    with pytest.raises(InputError, match="it is no export of an encoder"):
        MaskFiller.load(encoder / "model", "onnx")
    with pytest.raises(InputError, match="the runtime onnx has no bf16"):
        Embedder.load(encoder / "onnx", precision="bf16")


def test_a_masked_token_head_with_a_weight_that_is_no_number_answers_nothing(damaged: Path) -> None:
    onnx_numbers.require(damaged)
    model = onnx.load(damaged / MASK_HEAD_FILE)
    weight = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 2)
    numbers = onnx.numpy_helper.to_array(weight).copy()
    numbers[0, 0] = np.nan
    weight.CopyFrom(onnx.numpy_helper.from_array(numbers, weight.name))
    onnx.save(model, damaged / MASK_HEAD_FILE)
    with pytest.raises(InputError, match=r"mask_head\.onnx: .* holds NaN or infinity"):
        onnx_numbers.require(damaged)
    with pytest.raises(InputError, match=r"mask_head\.onnx: it returns NaN or infinity"):
        MaskFiller.load(damaged)


def test_guesses_are_of_finite_numbers(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = MaskFiller.load(encoder / "onnx")
    monkeypatch.setattr(filler.encoder, "piece_logits", lambda states: np.full((len(states), 9), np.nan, np.float32))
    with pytest.raises(InputError, match="the model returns NaN or infinity"):
        filler.predict(pa.table({"text": MASKED}))


@pytest.mark.parametrize(
    ("name", "sentence"), [("model.onnx", "not an exported model"), (MASK_HEAD_FILE, "not the head of this encoder")]
)
def test_a_damaged_graph_is_one_sentence(name: str, sentence: str, damaged: Path) -> None:
    (damaged / name).write_bytes((damaged / name).read_bytes()[:-200])
    with pytest.raises(InputError, match=sentence) as raised:
        Embedder.load(damaged)
    assert "\n" not in str(raised.value)
