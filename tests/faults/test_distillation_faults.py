"""A killed distillation resumes to the same student, and several workers train the same student as one process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import loading, new_head
from pipelines.compression import compress_entry
from pipelines.core import paths, schema, tables
from pipelines.stages import compress, encode
from pipelines.text import tokenizer as text_tokenizer
from pipelines.training import distributed
from tests.support import forked, kinds, tiny
from tests.support.fits import EACH_STEP
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
EPOCHS = 12  # of 3 steps each: long enough for a kill before the end
SGD = {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.01, "batch_size": 8}
TINYBERT = {"method": "tinybert", "layers": 2, "hidden_size": 16, "heads": 2, "intermediate_epochs": 2}
PKD = {"method": "pkd", "layers": 2}
SMALL = {"bottleneck": 8, "embedding_size": 8, "intermediate_size": 8, "feed_forwards": 1}
THESEUS = {"method": "theseus", "layers": 2, "replacing_epochs": 4, "rate": 0.5}


@pytest.fixture
def place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a teacher without dropout, and encoded rows."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = tiny.of_family("bert", checkout / "encoder", dropout=False, layers=4)
    torch.manual_seed(2)
    teacher = new_head.for_task(source, kinds.TASKS["single"])
    paths.model("teacher").mkdir(parents=True)
    model_folder.save(teacher, paths.model("teacher"), source, kinds.TASKS["single"])
    splits = ("train", "easy", "hard")
    for split in splits:
        tables.write(paths.rows("it") / f"{split}.parquet", kinds.rows("single").to_batches(), schema.ROWS["single"])
    kinds.TASKS["single"].with_(splits=splits).save(paths.rows("it"))
    write_entries({})
    encode.main("it")
    return checkout


def write_entries(entries: dict[str, dict[str, Any]], **resources: Any) -> None:
    """Write params.yaml with these entries of compress."""
    values = {
        "resources": {"checkpoint_minutes": EACH_STEP} | resources,
        "encode": {"it": {"task": "it", "vocab": str(paths.model("teacher")), "max_length": 32}},
        "compress": {name: {"teacher": "teacher", "data": "it", **entry} for name, entry in entries.items()},
    }
    Path("params.yaml").write_text(yaml.safe_dump(values))


STAGE = "pipelines.stages.compress"


def killed_after(checkpoint: Path) -> None:
    """Compress `cut`, and kill the process when it has written this checkpoint."""
    with forked.started(STAGE, "cut") as process:
        process.until(checkpoint.exists)
    assert not paths.model("cut").exists(), "it was killed before its end"


def weights(name: str) -> dict[str, torch.Tensor]:
    return loading.tensors(loading.weights(paths.model(name)))


def test_a_kill_in_the_second_stage_of_tinybert_changes_nothing(place: Path) -> None:
    entry = {**TINYBERT, "epochs": EPOCHS, "batch_size": 8, "learning_rate": 1e-3}
    write_entries({"whole": entry, "cut": entry})
    compress.main("whole")
    second = paths.checkpoints("compress", "cut") / "fit-2.pt"
    killed_after(second)
    assert 0 < torch.load(second, weights_only=True)["step"] < EPOCHS * 3, "it was killed in its second stage"
    modified = {path.name: path.stat().st_mtime_ns for path in paths.teacher_outputs("cut").iterdir()}
    assert {"logits", "hidden.0", "queries.2", "outputs.json"} < set(modified)
    first = second.with_name("fit-1.pt")
    before = first.stat().st_mtime_ns
    looks = 0
    with forked.started(STAGE, "cut") as process:
        while process.poll() is None:
            looks += look(first, before, modified)
        assert process.wait() == 0, process.said()
    assert looks, "it was looked at while it ran"
    require_same_student()
    ours = [name for name in weights("whole") if "of_layers" in name or "of_embeddings" in name]
    assert not ours, "projections are not kept"


def look(first: Path, before: int, modified: dict[str, int]) -> bool:
    """Return whether the first stage's files are there; assert that they have not changed since the kill."""
    now = paths.teacher_outputs("cut")
    try:
        modified_now = {path.name: path.stat().st_mtime_ns for path in now.iterdir()}
        assert modified_now == modified or not modified_now.items() - modified.items(), "the teacher is not asked again"
        assert first.stat().st_mtime_ns == before, "the first stage does not run again"
    except FileNotFoundError:  # the process removes them at its end
        return False
    return True


def require_same_student() -> None:
    whole, cut = weights("whole"), weights("cut")
    assert whole.keys() == cut.keys()
    assert all(tensor.equal(cut[name]) for name, tensor in whole.items())


@pytest.mark.parametrize(
    "entry",
    [
        {"method": "q8bert"},
        {"method": "share_layers"},
        {**THESEUS, "replacing_epochs": EPOCHS},
        {"method": "mobile", **SMALL, "transfer_epochs": EPOCHS},
    ],
    ids=lambda entry: entry["method"],
)
def test_a_kill_in_the_middle_of_a_fit_changes_nothing(
    entry: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed fit also restores other state: q8bert's ranges of activations, random draws, the number of the fit.

    Theseus draws at random which modules are replaced. Theseus and mobile are killed in the first of several fits.
    """
    monkeypatch.setenv("BERTLINE_QUIET", "")
    entry = {**entry, "epochs": EPOCHS, "batch_size": 8, "learning_rate": 1e-3}
    write_entries({"whole": entry, "cut": entry})
    compress.main("whole")
    checkpoint = paths.checkpoints("compress", "cut") / "fit-1.pt"
    killed_after(checkpoint)
    assert torch.load(checkpoint, weights_only=True)["step"] > 0
    again = forked.run(STAGE, "cut")
    assert again.returncode == 0, again.stderr
    assert "training resumes after step" in again.stderr
    require_same_student()


def test_weights_chosen_by_another_split_are_not_reused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed compression does not resume if `dev` names another split: scores on two splits cannot be compared."""
    scores = {"easy": [0.9, 0.8], "hard": [0.1, 0.3, 0.2, 0.2]}
    states: list[dict[str, torch.Tensor]] = []

    def on_split(folder: Path, split: str, task: Any) -> Any:
        scores_left = iter(scores[split])

        def watched(model: torch.nn.Module) -> dict[str, float]:
            states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
            if (score := next(scores_left, None)) is None:
                raise KeyboardInterrupt
            return {"accuracy": score}

        return watched

    monkeypatch.setattr(compress_entry.dev_scores, "on_split", on_split)
    entry = {"method": "drop_layers", "layers": 1, "epochs": 4, "batch_size": 8, "evaluations": 4}
    write_entries({"small": {**entry, "dev": "easy"}})
    with pytest.raises(KeyboardInterrupt):
        compress.main("small")
    assert len(states) == 3
    states.clear()
    write_entries({"small": {**entry, "dev": "hard"}})
    compress.main("small")
    assert len(states) == 4
    layers = {name: tensor for name, tensor in weights("small").items() if ".layer." in name}
    assert layers
    assert all(tensor.equal(states[1][name]) for name, tensor in layers.items()), "the best of four"


def test_checkpoints_stay_until_the_model_has_its_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any moment either the checkpoints or the finished model exist, so a kill loses neither."""
    there: list[bool] = []
    remove = distributed.shutil.rmtree

    def watched(folder: Any, *more: Any, **named: Any) -> None:
        if Path(folder) == paths.checkpoints("compress", "small").resolve():
            there.append(loading.weights(paths.model("small")).is_file())
        remove(folder, *more, **named)

    monkeypatch.setattr(distributed.shutil, "rmtree", watched)
    write_entries({"small": {"method": "drop_layers", "layers": 1, "epochs": 0.5}})
    compress.main("small")
    assert there == [True]


def test_checkpoints_of_another_method_are_not_reused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as cut:
        cut.setattr(compress_entry.folder, "save", full)
        write_entries({"small": {"method": "prune_vocab"}})
        with pytest.raises(OSError, match="No space left"):
            compress.main("small")
    write_entries({"small": {"method": "drop_layers", "layers": 1, "epochs": 0.5}})
    compress.main("small")
    model, _ = model_folder.load_tuned(paths.model("small"))
    assert model.config.vocab_size == text_tokenizer.load(paths.model("small")).vocab_size


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """End Ray after the module; the first training with workers starts it, and the others reuse it."""
    import ray

    yield
    ray.shutdown()


@pytest.mark.parametrize(
    ("entry", "cache_gb"),
    [
        pytest.param(PKD, 4.0, id="pkd-kept"),
        pytest.param(PKD, 0.0, id="pkd-asked again"),
        pytest.param(TINYBERT, 4.0, id="tinybert-kept", marks=pytest.mark.soak),
        pytest.param(TINYBERT, 0.0, id="tinybert-asked again", marks=pytest.mark.soak),
        pytest.param(THESEUS, 4.0, id="theseus"),  # does not use the teacher's outputs
    ],
)
def test_two_workers_make_the_student_that_one_process_makes(
    entry: dict[str, Any], cache_gb: float, place: Path, cluster: None
) -> None:
    """The teacher's outputs come from files, or (without room for them) from a teacher in each worker."""
    entry = {**entry, "epochs": 2, **SGD}
    write_entries({"alone": entry, "both": entry})
    compress.main("alone")
    write_entries({"alone": entry, "both": entry}, workers=2, cache_gb=cache_gb)
    compress.main("both")
    alone, both, begun = weights("alone"), weights("both"), weights("teacher")
    assert any(name in begun and not tensor.equal(begun[name]) for name, tensor in alone.items() if "layer" in name)
    assert all(torch.allclose(tensor, both[name], atol=1e-4) for name, tensor in alone.items())
