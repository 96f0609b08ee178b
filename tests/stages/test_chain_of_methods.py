"""The compress stage, one method after the other: what each leaves in variant.json, and a kill in between."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import formats, quantized
from pipelines.compression import masks
from pipelines.core import json_file, paths, provenance, schema, tables
from pipelines.core.errors import UsageError
from pipelines.inference.predictor import Predictor
from pipelines.measurement import cost
from pipelines.models import backbones, shapes
from pipelines.stages import compress, encode, evaluate, finetune
from pipelines.training.loop import Training
from tests.support import kinds, tiny
from tests.support.fits import EACH_STEP

FIT = {"epochs": 2, "batch_size": 8, "learning_rate": 0.01}
Entries = dict[str, dict[str, Any]]


@pytest.fixture
def rows(checkout: Path) -> Path:
    """Encoded rows with a split to look at, and a teacher with their tokenizer."""
    tiny.classifier(paths.model("teacher"))
    for split in ("train", "dev"):
        tables.write(paths.rows("it") / f"{split}.parquet", kinds.rows("single").to_batches(), schema.ROWS["single"])
    kinds.TASKS["single"].with_(splits=("train", "dev")).save(paths.rows("it"))
    compress_entries({})
    encode.main("it")
    return checkout


def compress_entries(entries: Entries, minutes: float = 5.0, **more: Any) -> None:
    """params.yaml with these entries of compress."""
    whole = {name: {"teacher": "teacher", "data": "it", "seed": 3, **entry} for name, entry in entries.items()}
    encoded = {"it": {"task": "it", "vocab": str(paths.model("teacher")), "max_length": 32}}
    values: dict[str, Any] = {"encode": encoded, "compress": whole, "resources": {"checkpoint_minutes": minutes}}
    for section, entries_of_section in more.items():
        values[section] = values.get(section, {}) | entries_of_section
    Path("params.yaml").write_text(yaml.safe_dump(values))


def variant(name: str) -> dict[str, Any]:
    return json.loads((paths.model(name) / "variant.json").read_text())


def test_a_chain_of_methods_records_every_step(rows: Path) -> None:
    """Layers go, heads go, a third trains on, and int8 is the last; each teacher is what the one before made."""
    chain: Entries = {
        "fewer": {"method": "drop_layers", "layers": 1, "dev": "dev", **FIT},
        "cut": {"method": "prune_heads", "teacher": "fewer", "share": 0.5, **FIT},
        "thin": {"method": "prune_ffn", "teacher": "cut", "share": 0.5, "among": "model", **FIT},
        "sparse": {"method": "prune_magnitude", "teacher": "thin", "sparsity": 0.5, **FIT},
        "small": {"method": "factorize_embeddings", "teacher": "sparse", "size": 8, **FIT},
        "last": {"method": "dynamic_int8", "teacher": "small"},
    }
    compress_entries(chain)
    before = cost.size(paths.model("teacher"))["size_bytes"]
    for name in chain:
        compress.main(name)
        size = cost.size(paths.model(name))["size_bytes"]
        assert size < before or name == "sparse"
        before = size
    model, _ = model_folder.load_tuned(paths.model("last"))
    assert quantized.is_int8(model)
    assert shapes.of(model) == {"heads": [1], "embedding": 8}
    assert model.config.intermediate_size == 32, "one layer is left: the native config says its rows"
    assert Predictor.load(paths.model("last")).predict(kinds.rows("single")).num_rows == 24
    described = variant("last")
    first, *steps = described["chain"]
    assert first == {
        "run": "teacher",
        "method": None,
        "sha256": provenance.sha256(paths.model("teacher") / "model.safetensors"),
    }
    assert [(step["run"], step["method"]) for step in steps] == [(name, chain[name]["method"]) for name in chain]
    assert steps[0]["params"]["layers"] == 1
    sha256 = provenance.sha256(formats.weights(paths.model("small")))
    assert described["teacher"] == {"run": "small", "sha256": sha256}
    assert variant("thin")["found"] == {"intermediate": [32]}
    assert variant("sparse")["found"] == {"sparsity_of_layers": 0.5}
    assert variant("sparse")["sparsity"] > 0.1
    assert described["sparsity"] == 0, "rounding has zeros of its own"
    assert [step["params"]["sparsity"] for step in steps if step["method"] == "prune_magnitude"] == [0.5]


@pytest.mark.parametrize("method", ["dynamic_int8", "group_quant"])
def test_zeros_from_rounding_are_not_counted_as_sparsity(method: str, rows: Path) -> None:
    compress_entries({"last": {"method": method}})
    compress.main("last")
    assert cost.zeros(paths.model("last")) > 100
    assert variant("last")["sparsity"] == 0


def test_a_variant_says_what_its_folder_holds_and_the_same_twice(rows: Path) -> None:
    compress_entries({"thin": {"method": "prune_ffn", "share": 0.5, "epochs": 0}})
    compress.main("thin")
    folder, described = paths.model("thin"), variant("thin")
    model, _ = model_folder.load_tuned(folder)
    assert described["size_bytes"]["folder"] == sum(file.stat().st_size for file in folder.rglob("*"))
    assert described["size_bytes"]["weights"] == formats.weights(folder).stat().st_size
    assert described["parameters"] == sum(p.numel() for p in model.parameters())
    zeros = sum(int((p == 0).sum()) for p in model.parameters())
    assert described["sparsity"] == round(zeros / described["parameters"], 6)
    assert (described["run"], described["method"], described["found"]) == (
        "thin",
        "prune_ffn",
        {"intermediate": [32, 32]},
    )
    layer = 2 * (4 * 32 * 32 + 2 * 32 * 32) + 2 * 2 * 64 * 32  # of 64 tokens, which is all that the teacher reads
    head = 2 * (32 * 32 + 32 * 3) // 64  # the pooler and the classifier, once a sequence
    assert described["flops_per_token"] == 2 * layer + head
    before = (folder / "variant.json").read_bytes()
    compress.main("thin")
    assert (folder / "variant.json").read_bytes() == before
    assert "score" not in described


def test_shared_layers_are_counted_and_stored_once(rows: Path) -> None:
    compress_entries(
        {"shared": {"method": "share_layers", **FIT}, "int8": {"method": "dynamic_int8", "teacher": "shared"}}
    )
    compress.main("shared")
    described, (model, _) = variant("shared"), model_folder.load_tuned(paths.model("shared"))
    assert type(model).__name__ == "AlbertForSequenceClassification"
    assert model.config.architectures == ["AlbertForSequenceClassification"]
    assert described["parameters"] == sum(p.numel() for p in model.parameters())
    layer = 2 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 2 * 64 * 32
    assert described["flops_per_token"] == 2 * layer + 2 * 32 * 32 + 2 * (32 * 32 + 32 * 3) // 64, (
        "both layers are computed"
    )
    compress.main("int8")
    assert variant("int8")["flops_per_token"] == described["flops_per_token"]


def test_evaluate_records_what_a_run_costs(rows: Path) -> None:
    """The same bytes twice, with acceleration and without."""
    chain: Entries = {
        "zeros": {"method": "prune_magnitude", "sparsity": 0.5, **FIT},
        "last": {"method": "dynamic_int8", "teacher": "zeros"},
    }
    scored = {name: {"task": "it", "split": "dev"} for name in ("teacher", *chain)}
    compress_entries(chain, evaluate=scored)
    for name in chain:
        compress.main(name)
    records = {}
    for name in scored:
        evaluate.main(name)
        records[name] = json_file.mapping(paths.metrics(name))
    assert "variant" not in records["teacher"]
    steps = [{"run": "teacher", "method": None}, {"run": "zeros", "method": "prune_magnitude"}]
    described = variant("zeros")
    assert records["zeros"]["variant"] == {
        "teacher": "teacher",
        "chain": steps,
        "params": described["params"],
        "sparsity": described["sparsity"],
    }
    assert described["params"]["sparsity"] == 0.5
    assert described["sparsity"] > 0.1
    assert records["last"]["variant"]["teacher"] == "zeros"
    assert records["last"]["variant"]["chain"] == [*steps, {"run": "last", "method": "dynamic_int8"}]
    for name, record in records.items():
        assert record["model"].keys() == {"parameters", "size_bytes", "flops_per_token"}
        assert record["model"]["size_bytes"] == formats.weights(paths.model(name)).stat().st_size
    operations = {record["model"]["flops_per_token"] for record in records.values()}
    assert operations == {described["flops_per_token"]}, "neither zeros nor integers are fewer operations"
    before = paths.metrics("teacher").read_bytes()
    compress_entries(chain, evaluate=scored, resources={"acceleration": False})
    evaluate.main("teacher")
    assert paths.metrics("teacher").read_bytes() == before


def test_a_killed_lottery_search_resumes_to_the_same_weights(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"method": "prune_magnitude", "sparsity": 0.75, "rounds": 3, "rewind": "teacher", **FIT}
    compress_entries({"whole": entry, "killed": entry}, minutes=EACH_STEP)
    compress.main("whole")
    update, steps = Training.step, []

    def cut(self: Training, *arguments: Any) -> Any:
        steps.append((self.job.checkpoint.name, self.now.step))
        if steps.count(("fit-2.pt", 4)) == 1 and steps[-1] == ("fit-2.pt", 4):
            raise KeyboardInterrupt
        return update(self, *arguments)

    monkeypatch.setattr(Training, "step", cut)
    with pytest.raises(KeyboardInterrupt):
        compress.main("killed")
    assert not paths.model("killed").exists()
    done = len(steps)
    compress.main("killed")
    assert steps[done:] == [*(("fit-2.pt", i) for i in range(4, 6)), *(("fit-3.pt", i) for i in range(6))]
    whole, killed = (model_folder.load_tuned(paths.model(name))[0] for name in ("whole", "killed"))
    assert backbones.digest(whole) == backbones.digest(killed)
    assert masks.share_of_zeros(killed) == pytest.approx(0.75, abs=1e-3)


def test_weights_rewind_to_the_encoder_that_was_fine_tuned(rows: Path) -> None:
    """Without training afterwards, what is left of every matrix is the encoder's own."""
    tiny.encoder(Path("encoder"))
    tuned = {"tuned": {"data": "it", "encoder": "encoder", **FIT}}
    entry = {"method": "prune_magnitude", "sparsity": 0.5, "rewind": "encoder", "epochs": 0}
    entries = {"ticket": {**entry, "teacher": "tuned"}, "second": {**entry, "teacher": "ticket"}}
    compress_entries(entries, finetune=tuned)
    finetune.main("tuned")
    compress.main("ticket")
    (first, _), (teacher, _) = (model_folder.load_tuned(paths.model(name)) for name in ("ticket", "tuned"))
    encoder = _encoder(Path("encoder"))
    for name, matrix in masks.matrices(first).items():
        inner = name.removeprefix("bert.")
        zero, learned = matrix == 0, masks.matrices(teacher)[name]
        assert 0 < int(zero.sum()) < matrix.numel()
        assert matrix[~zero].equal(encoder[inner][~zero])
        assert learned.abs()[zero].mean() < learned.abs()[~zero].mean(), "the teacher's sizes chose"
    assert first.classifier.weight.equal(teacher.classifier.weight)
    with pytest.raises(UsageError, match="rewind: encoder: finetune did not make artifacts/models/ticket"):
        compress.main("second")
    (Path("encoder") / "config.json").write_text((Path("encoder") / "config.json").read_text() + "\n")
    with pytest.raises(UsageError, match="encoder has changed since artifacts/models/tuned was fine-tuned from it"):
        compress.main("ticket")


def _encoder(folder: Path) -> dict[str, torch.Tensor]:
    from transformers import AutoModel

    return dict(AutoModel.from_pretrained(folder).state_dict())


def test_the_most_frequent_pieces_in_use_stay(rows: Path) -> None:
    compress_entries(
        {"short": {"method": "prune_vocab"}, "least": {"method": "prune_vocab", "most": 5, "characters": False}}
    )
    compress.main("short")
    compress.main("least")
    (short, least), whole = (Predictor.load(paths.model(name)).tokenizer for name in ("short", "least")), counted()
    pieces = least.tokens(range(least.vocab_size))
    special = {least.pad_id, least.unk_id, least.cls_id, least.sep_id, least.mask_id}
    often = {piece for piece, _ in whole.most_common(5)}
    assert set(pieces) == {*least.tokens(sorted(special)), *often}
    assert least.vocab_size < short.vocab_size
    labels = Predictor.load(paths.model("least")).predict(kinds.rows("single")).column("label").to_pylist()
    assert len(labels) == 24


def counted() -> Counter[str]:
    """How often the encoded rows have each piece; those that are equally frequent by their ids."""
    table, tokenizer = (
        tables.read(paths.encoded("it") / "train.parquet"),
        Predictor.load(paths.model("teacher")).tokenizer,
    )
    ids = sorted(id_ for row in table.column("input_ids").to_pylist() for id_ in row)
    return Counter(tokenizer.tokens(ids))


def test_a_shortened_vocabulary_gives_the_same_predictions(rows: Path) -> None:
    compress_entries(
        {"short": {"method": "prune_vocab"}, "next": {"method": "drop_layers", "layers": 1, "teacher": "short", **FIT}}
    )
    compress.main("short")
    whole, short = (Predictor.load(paths.model(name)) for name in ("teacher", "short"))
    assert short.tokenizer.vocab_size < whole.tokenizer.vocab_size
    ids = [predictor.encode(kinds.rows("single")).column("input_ids").values.to_numpy() for predictor in (whole, short)]
    texts = [predictor.tokenizer.tokens(piece_ids) for predictor, piece_ids in zip((whole, short), ids, strict=True)]
    assert texts[0] == texts[1]
    unpruned, pruned = (predictor.predict(kinds.rows("single")).to_pylist() for predictor in (whole, short))
    for before, after in zip(unpruned, pruned, strict=True):
        assert after["scores"] == pytest.approx(before["scores"], abs=1e-6)
        assert after["label"] == before["label"]
    assert variant("short")["found"] == {"pieces": short.tokenizer.vocab_size, "of": whole.tokenizer.vocab_size}
    message = (
        "compress.next.data: it is encoded with another vocabulary than that of short; encode the rows with it: vocab: "
    )
    with pytest.raises(UsageError, match=message):
        compress.main("next")
    entry = {"method": "drop_layers", "layers": 1, "teacher": "short", "data": "anew", **FIT}
    compress_entries(
        {"next": entry}, encode={"anew": {"task": "it", "vocab": str(paths.model("short")), "max_length": 32}}
    )
    encode.main("anew")
    compress.main("next")
    assert np.isfinite(
        [row["score"] for row in Predictor.load(paths.model("next")).predict(kinds.rows("single")).to_pylist()]
    ).all()
