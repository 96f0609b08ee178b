"""Vectors of texts are the pooled states of transformers' own model, with the same bits whatever is beside a text."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from pipelines.core.errors import InputError, UsageError
from pipelines.inference.embedding import Embedder
from pipelines.measurement import row_exactness
from tests.support import compressed, tiny

TEXTS = ["私は犬が好き。", "", "映画の公開日が決定、監督が語る" * 20, "試合は延長の末に決着した"]


def vectors(embedder: Embedder, texts: list[str]) -> list[list[float]]:
    return embedder.predict(pa.table({"text": texts})).column("vector").to_pylist()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_vector_is_pooled_from_transformers_states(pooling: str, tmp_path: Path) -> None:
    folder = tiny.encoder(tmp_path / "encoder")
    embedder = Embedder.load(folder, pooling=pooling)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    answers = embedder.predict(pa.table({"id": list("abcd"), "text": TEXTS}))
    assert answers.column("id").to_pylist() == list("abcd")
    for text, answer in zip(TEXTS, answers.to_pylist(), strict=True):
        ids = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        with torch.inference_mode():
            states = model(**ids).last_hidden_state[0]
        expected = states[0] if pooling == "cls" else states.mean(dim=0)
        assert answer["vector"] == pytest.approx(expected.tolist(), abs=1e-5)
        assert answer["tokens"] == len(states)


def test_a_normalized_vector_has_length_1(tmp_path: Path) -> None:
    folder = tiny.encoder(tmp_path / "encoder")
    plain, unit = (np.array(vectors(Embedder.load(folder, normalize=n), TEXTS)) for n in (False, True))
    assert np.linalg.norm(unit, axis=1) == pytest.approx(1, abs=1e-6)
    assert unit == pytest.approx(plain / np.linalg.norm(plain, axis=1, keepdims=True), abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "xlnet", "bilstm", "distilbert", "electra"])
def test_company_changes_no_bit(family: str, tmp_path: Path) -> None:
    embedder = Embedder.load(tiny.of_family(family, tmp_path / family))
    assert row_exactness.largest_difference(embedder, sequences=8, partitions=2) == 0.0
    assert vectors(embedder, TEXTS) == [vectors(embedder, [text])[0] for text in TEXTS]


def test_a_fine_tuned_model_embeds_with_its_encoder(tmp_path: Path) -> None:
    folder = compressed.teacher("bert", "span", tmp_path / "tuned")
    encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    encoder.save_pretrained(tmp_path / ".tuned.encoder")
    assert vectors(Embedder.load(folder), TEXTS) == vectors(Embedder.load(tmp_path / ".tuned.encoder"), TEXTS)


def test_what_cannot_be_embedded_is_one_sentence(tmp_path: Path) -> None:
    folder = tiny.encoder(tmp_path / "encoder")
    with pytest.raises(UsageError, match="no pooling 'max'; there are: cls, mean"):
        Embedder.load(folder, pooling="max")
    with pytest.raises(InputError, match="it is no export of an encoder; the export stage makes one"):
        Embedder.load(folder, "onnx")
    with pytest.raises(InputError, match="nowhere: no such model folder"):
        Embedder.load(tmp_path / "nowhere")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(InputError, match="was the file cut off"):
        Embedder.load(folder)
