"""What a compression method may count on: everything in its context, the step in its loss, a hook before every step."""

import builtins
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from pipelines.checkpoints import folder as model_folder
from pipelines.compression import methods
from pipelines.core import paths, plugins, provenance, schema, tables
from pipelines.core.errors import UsageError
from pipelines.models import backbones
from pipelines.stages import compress, encode
from pipelines.text import tokenizer
from tests.support import kinds, tiny
from tests.support.fits import EACH_STEP

STEPS = 12  # of the entry below: 24 rows in batches of 8, four times


@pytest.fixture
def recorder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The tests' own method in the plugin folder; a teacher, a student, and encoded rows with a split to look at."""
    folder = Path(__file__).parents[1] / "support" / "methods"
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(folder)])
    tiny.classifier(paths.model("teacher"))
    tiny.classifier(paths.model("student"), seed=7)
    rows = kinds.rows("single")
    for split in ("train", "dev"):
        tables.write(paths.rows("it") / f"{split}.parquet", rows.to_batches(), schema.ROWS["single"])
    kinds.TASKS["single"].with_(splits=("train", "dev")).save(paths.rows("it"))
    write_params(dev="dev")
    encode.main("it")
    method = plugins.load("pipelines.compression.methods", "recorder")
    yield method
    for records in (method.given, method.events, method.scores):
        records.clear()


def write_params(**more: Any) -> None:
    """params.yaml with an entry for the method."""
    entry = {"teacher": "teacher", "data": "it", "method": "recorder", "student": str(paths.model("student"))}
    entry |= {"epochs": 4, "batch_size": 8, "learning_rate": 0.01, "evaluations": 4, "seed": 3} | more
    values = {
        "resources": {"checkpoint_minutes": EACH_STEP},
        "encode": {"it": {"task": "it", "vocab": str(paths.model("teacher")), "max_length": 32}},
        "compress": {"small": entry},
    }
    Path("params.yaml").write_text(yaml.safe_dump(values))


def test_the_context_holds_what_a_method_may_use(recorder: ModuleType) -> None:
    teacher, task = model_folder.load_tuned(paths.model("teacher"))
    compress.main("small")
    (context,) = recorder.given
    assert not context.teacher.training
    assert backbones.digest(context.teacher) == backbones.digest(teacher)
    assert context.fit.depends == f"{backbones.digest(teacher)} {provenance.digest(paths.encoded('it'))} dev"
    assert context.task == task
    assert len(context.data.train) == len(context.data.dev) == 24
    texts = tokenizer.load(paths.model("teacher"))
    assert context.data.pad_id == texts.pad_id
    assert context.tokenizer.encode(tiny.TEXTS).values.tolist() == texts.encode(tiny.TEXTS).values.tolist()
    assert context.seed == 3
    assert set(context.watch(context.teacher)) >= {"accuracy", "macro_f1"}
    assert context.cache == paths.teacher_outputs("small")
    assert not context.cache.exists()  # the stage has ended well
    model_folder.load_tuned(paths.model("small"))


def test_a_folder_is_opened_once_and_handed_on(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the model is scored while it trains."""
    reads, plain = Counter[Path](), io.open

    def counted(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode in ("r", "rb") and isinstance(file, str | Path):
            reads[Path(file).absolute()] += 1
        return plain(file, mode, *args, **options)

    with monkeypatch.context() as patched:
        for module in (builtins, io):
            patched.setattr(module, "open", counted)
        compress.main("small")
    assert len(recorder.scores) == 4
    at_most = {  # by bertline once; others are transformers, the copy for the new folder, and the digest of inputs
        paths.model("teacher") / "config.json": 3,
        paths.model("teacher") / "tokenizer_config.json": 3,
        paths.model("teacher") / "task.json": 2,
        paths.model("teacher") / "vocab.txt": 3,
        paths.encoded("it") / "tokenizer/tokenizer_config.json": 2,  # to compare the vocabularies, and for all scores
    }
    for file, most in at_most.items():
        assert 1 <= reads[file.absolute()] <= most, f"{file}: read {reads[file.absolute()]} times"


def test_without_a_dev_split_the_last_weights_are_kept(recorder: ModuleType) -> None:
    write_params()
    compress.main("small")
    (context,) = recorder.given
    assert context.data.dev is None
    assert context.watch is None
    assert not recorder.scores
    write_params(dev="test")
    with pytest.raises(UsageError, match=r"params\.yaml: compress\.small\.dev: no split 'test'; there are: dev, train"):
        compress.main("small")


def test_a_method_is_called_before_every_step_and_its_loss_knows_the_step(recorder: ModuleType) -> None:
    compress.main("small")
    assert recorder.events == [(what, step) for step in range(STEPS) for what in ("before", "loss")]
    recorder.events.clear()
    write_params(accumulate=2)
    compress.main("small")
    assert recorder.events == [(what, step) for step in range(STEPS) for what in ("before", "loss", "loss")]


def test_a_run_cut_off_goes_on_at_its_step(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(recorder, monkeypatch)
    compress.main("small")
    assert recorder.events == [(what, step) for step in range(5, STEPS) for what in ("before", "loss")]


def test_a_checkpoint_of_another_teacher_is_not_reused(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The student, the rows and the params are the same: the teacher alone tells the two jobs apart."""
    cut_off(recorder, monkeypatch)
    tiny.classifier(paths.model("teacher"), seed=11)
    compress.main("small")
    assert recorder.events == [(what, step) for step in range(STEPS) for what in ("before", "loss")]


def cut_off(recorder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is interrupted before step 5."""
    monkeypatch.setattr(recorder, "cut_at", 5)
    with pytest.raises(KeyboardInterrupt):
        compress.main("small")
    assert recorder.events[-1] == ("loss", 4)
    assert (paths.checkpoints("compress", "small") / "fit-1.pt").is_file()
    assert (paths.teacher_outputs("small") / "outputs").is_file()
    assert not paths.model("small").exists()
    monkeypatch.setattr(recorder, "cut_at", -1)
    recorder.events.clear()


def test_the_weights_that_score_best_are_kept(recorder: ModuleType) -> None:
    write_params(dev="dev", epochs=40, learning_rate=3e-4, evaluations=8, unlearns_from=60)
    compress.main("small")
    values = [score for score, _ in recorder.scores]
    assert len(values) == 8
    assert values[-1] < max(values) > values[0], "it learns, then it unlearns"
    best = recorder.scores[values.index(max(values))][1]
    model, _ = model_folder.load_tuned(paths.model("small"))
    assert recorder.given[0].watch(model)["accuracy"] == max(values)
    changed = {name for name, tensor in model.state_dict().items() if not tensor.equal(best[name])}
    assert changed == {"bert.embeddings.word_embeddings.weight"}  # while it trains, of the words in use alone
