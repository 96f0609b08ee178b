"""Every distillation method on every kind of rows and family that it serves, and one sentence for those it does not."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.checkpoints import quantized as quantized_weights
from pipelines.compression import compress_entry
from pipelines.compression.context import Context, Data
from pipelines.core import params, plugins, schema
from pipelines.core.errors import InputError, UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.compress import Compress
from pipelines.inference.predictor import Predictor
from pipelines.models import backbones
from pipelines.models.quantization import int8
from pipelines.text import tokenizer
from pipelines.training.distributed import fitting
from tests.support import tiny
from tests.support.compressed import STUDENTS
from tests.support.covering import pairwise
from tests.support.kinds import FAMILIES, TASKS, encoded, rows

FEW: dict[str, Any] = {"epochs": 1, "batch_size": 12}  # two steps
NOT_SERVED = {  # (method, family or kind) -> what is said
    **{
        (name, family): f"attention: 1: the {family} family exposes no queries and keys; set it to 0"
        for name in ("tinybert", "mobile")
        for family in ("xlnet", "deberta-v2")
    },
    **{
        ("theseus", family): f"method: theseus: the layers of the {family} family cannot be replaced one by one"
        for family in ("albert", "xlnet", "mobilebert", "deberta-v2")
    },
    **{
        ("bilstm_student", kind): f"method: bilstm_student: a BiLSTM has no head for rows of kind {kind}"
        for kind in ("span", "choice")
    },
}


def context(place: Path, family: str = "bert", kind: str = "single", layers: int = 4, head: str = "native") -> Context:
    """A random teacher, and rows for it."""
    source, task = tiny.of_family(family, place / "encoder", layers=layers), TASKS[kind]
    torch.manual_seed(2)
    features = "weighted_sum" if head != "native" else "last"
    try:
        teacher = new_head.for_task(source, task, head, features=features).eval()
    except InputError:
        pytest.skip("the family has no such head")
    data = Data(encoded(kind, place / "encoded", source), None, tokenizer.load(source).pad_id)
    with fitting("compress", "t", Resources()) as fit:
        return Context(teacher, task, data, tokenizer.load(source), None, 1, fit, place / "cache", OpenedFolder(source))


def compressed(name: str, context_of: Context, **more: Any) -> Any:
    method = plugins.load("pipelines.compression.methods", name)
    context_of.fit.folder.mkdir(parents=True, exist_ok=True)
    return method.compress(context_of, method.Params(**FEW | method.EXAMPLE | more))


def size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def opened(model: Any, context_of: Context, place: Path) -> Predictor:
    place.mkdir()
    model_folder.save(model, place, place.parent / "encoder", context_of.task)
    return Predictor.load(place)


@pytest.mark.parametrize(("name", "family", "kind"), pairwise([*STUDENTS], FAMILIES, [*TASKS]))
def test_a_student_is_smaller_and_predicts(name: str, family: str, kind: str, checkout: Path) -> None:
    teaching = context(checkout, family, kind)
    before = size(teaching.teacher)
    message = NOT_SERVED.get((name, family)) or NOT_SERVED.get((name, kind))
    if message:
        with pytest.raises(UsageError, match=f"^params.yaml: compress: {message}"):
            compressed(name, teaching)
        assert not teaching.cache.exists(), "the teacher was asked for nothing"
        return
    digest = backbones.digest(teaching.teacher)
    student = compressed(name, teaching)
    assert backbones.digest(teaching.teacher) == digest, "the teacher stays as it is"
    assert not student.training
    assert all(parameter.requires_grad for parameter in student.parameters())
    assert size(student) < before or (name, family) in {("distilbert", "albert"), ("pkd", "albert")}  # shared layers
    answers = opened(student, teaching, checkout / "out").predict(rows(kind))
    assert answers.schema.names == schema.PREDICTIONS[kind].names
    numbers = [row[key] for row in answers.to_pylist() for key in ("score", "value") if key in row]
    assert len(numbers) == 24
    assert np.isfinite(numbers).all()


@pytest.mark.parametrize("name", ["tinybert", "mobile"])
@pytest.mark.parametrize("family", ["xlnet", "deberta-v2"])
def test_without_attention_losses_every_family_can_be_distilled(family: str, name: str, checkout: Path) -> None:
    teaching = context(checkout, family)
    assert size(compressed(name, teaching, attention=0.0)) < size(teaching.teacher)


@pytest.mark.parametrize("name", STUDENTS)
def test_a_teacher_whose_head_reads_all_layers_is_distilled_or_refused(name: str, checkout: Path) -> None:
    teaching = context(checkout, head="linear")
    if name == "theseus":
        with pytest.raises(UsageError, match="the teacher's head reads weighted_sum, and modules show the last"):
            compressed(name, teaching)
        return
    student = compressed(name, teaching)
    assert size(student) < size(teaching.teacher)
    opened(student, teaching, checkout / "out").predict(rows("single"))


@pytest.mark.parametrize("name", STUDENTS)
def test_the_same_seed_makes_the_same_student(name: str, checkout: Path) -> None:
    digests = {backbones.digest(compressed(name, context(checkout / str(i)))) for i in range(2)}
    assert len(digests) == 1


WITHOUT_LABELS: dict[str, dict[str, Any]] = {
    "soft_targets": {"soft": 1.0},
    "distilbert": {"hard": 0.0},
    "pkd": {"alpha": 1.0},
    "tinybert": {},
    "theseus": {"soft": 1.0},
    "bilstm_student": {},
    "mobile": {"soft": 1.0},
}


@pytest.mark.parametrize("name", STUDENTS)
def test_a_student_can_learn_from_its_teacher_without_labels(name: str, checkout: Path) -> None:
    """Other labels, the same student: so the rows of a transfer set may have any."""
    digests = set()
    for place in ("right", "wrong"):
        teaching = context(checkout / place)
        if place == "wrong":
            train = teaching.data.train
            other = dataclasses.replace(train, labels=np.roll(train.labels, 1))
            assert not np.array_equal(other.labels, train.labels)
            teaching = dataclasses.replace(teaching, data=dataclasses.replace(teaching.data, train=other))
        digests.add(backbones.digest(compressed(name, teaching, **WITHOUT_LABELS[name])))
    assert len(digests) == 1


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("soft_targets", {"layers": 5}, "layers: 5: the teacher has 4; a student takes at most as many"),
    ("soft_targets", {"hidden_size": 64}, "hidden_size: 64: the teacher has 32; a student takes at most"),
    ("soft_targets", {"layers": None, "hidden_size": None}, "the student is as large as its teacher; set layers, hid"),
    ("soft_targets", {"hidden_size": 15, "heads": 2}, "no student can be built with layers 2, hidden_size 15, heads 2"),
    ("soft_targets", {"student": "else"}, "student: else has its own sizes; remove layers, hidden_size"),
    ("soft_targets", {"intermediate_size": 4096}, "student: .*intermediate_size 4096: the student has .* a student"),
    ("soft_targets", {"layers": 4, "hidden_size": 32}, "student: layers 4, hidden_size 32: the student has .* the"),
    ("pkd", {"layers": 4}, "layers: 4: the teacher has 4; take 2 to 3"),
    ("pkd", {"layers": 1}, "layers: 1: the teacher has 4"),
    ("tinybert", {"layers": 5}, "layers: 5: the teacher has 4"),
    ("tinybert", {"hidden_size": 48}, "hidden_size: 48: the teacher has 32"),
    ("tinybert", {"heads": 4}, "heads: 4: the teacher has 2; every layer needs the same number"),
    ("tinybert", {"layers": 3}, "map: uniform: 4 layers of the teacher do not divide evenly among 3"),
    ("tinybert", {"map": [2]}, r"map: \[2\] names 1 layers; the student has 2, each needs one"),
    ("tinybert", {"map": [2, 5]}, r"map: \[2, 5\]: the teacher has no layer 5; it has layers 1 to 4"),
    ("tinybert", {"map": [3, 2]}, r"map: \[3, 2\]: a higher layer must follow a higher layer"),
    ("theseus", {"layers": 3}, "layers: 3: the teacher has 4; modules of equal size are possible with 1"),
    ("theseus", {"layers": 4}, "layers: 4: the teacher has 4"),
    ("mobile", {"bottleneck": 9}, "bottleneck: 9 is not divisible by the teacher's 2 heads"),
    ("mobile", {"bottleneck": 64}, "bottleneck: 64: the student has .* parameters, the teacher .*; make the b"),
    ("bilstm_student", {"hidden_size": 900}, "hidden_size: 900: the student has .* parameters, the teacher"),
    ("bilstm_student", {"hidden_size": 15}, "hidden_size: 15: hidden_size 15 is not divisible by 2"),
]


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        (
            "tinybert",
            {"map": ["a", "b"]},
            r"\.map: \['a', 'b'\]: uniform, top, bottom, or a list of the teacher's layers",
        ),
        ("distilbert", {"temperature": 1e300}, r"\.temperature: 1e\+300: input should be less than or equal to 1000"),
        ("theseus", {"temperature": 1e300}, r"\.temperature: 1e\+300: input should be less than or equal to 1000"),
        (
            "distilbert",
            {"soft": 0.0, "hard": 0.0, "cosine": 0.0},
            ": soft, hard and cosine are all 0: nothing would be ",
        ),
    ],
)
def test_impossible_values_are_refused_when_params_are_read(name: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^params.yaml: compress.small{message}"):
        params.parse(plugins.load("pipelines.compression.methods", name).Params, wrong, "compress.small")


@pytest.mark.parametrize(("name", "wrong", "message"), BAD)
def test_impossible_choices_are_refused_before_any_training(
    name: str, wrong: dict[str, Any], message: str, checkout: Path
) -> None:
    teaching = context(checkout)
    with pytest.raises(UsageError, match=f"^params.yaml: compress: {message}"):
        compressed(name, teaching, **wrong)
    assert not teaching.cache.exists()


@pytest.mark.parametrize("layers", [1, 2])
def test_pkd_refuses_a_teacher_that_is_too_shallow(layers: int, checkout: Path) -> None:
    with pytest.raises(UsageError, match=f"the teacher has {layers}; pkd needs a teacher of 3 or more"):
        compressed("pkd", context(checkout, layers=layers), layers=1)


def test_a_pretrained_student_brings_its_weights_and_must_read_the_same_ids(checkout: Path) -> None:
    teaching = context(checkout)
    sizes = {"layers": None, "hidden_size": None}
    source = tiny.of_family("electra", checkout / "small", layers=1)
    student = compressed("soft_targets", teaching, student=str(source), learning_rate=1e-9, weight_decay=0.0, **sizes)
    before = new_head.encoder(source).state_dict()
    after = backbones.encoder(student).state_dict()
    assert all(torch.allclose(tensor, before[name], atol=1e-6) for name, tensor in after.items())
    with pytest.raises(UsageError, match=r"student: .*other has another vocabulary than the teacher; both must read"):
        compressed(
            "soft_targets", teaching, student=str(tiny.of_family("bert", checkout / "other", tokens="bpe")), **sizes
        )
    with pytest.raises(InputError, match=r"nowhere: no config\.json; it is not a model folder"):
        compressed("soft_targets", teaching, student=str(checkout / "nowhere"), **sizes)
    with pytest.raises(
        UsageError, match=r"student: artifacts/models/small: the graph writes this folder; copy it to encoders/small"
    ):
        compressed("soft_targets", teaching, student="artifacts/models/small", **sizes)
    deeper = str(tiny.of_family("bert", checkout / "deeper", layers=8))
    for name, more in (("soft_targets", {}), ("tinybert", {"map": "top"})):
        with pytest.raises(
            UsageError, match=r"student: .*deeper: the student has .*; a student has fewer than its teacher"
        ):
            compressed(name, teaching, student=deeper, **sizes, heads=None, **more)


@pytest.mark.parametrize(
    ("family", "positions", "longest", "expected"),
    [("bert", 64, 30, 64), ("modernbert", 1024, 30, 512), ("modernbert", 1024, 600, 600), ("xlnet", None, 600, 600)],
)
def test_a_mobile_student_reads_the_longest_row(
    family: str, positions: int | None, longest: int, expected: int, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MobileBERT's 512 positions, and more where a training row has more; never more than the teacher's."""
    if positions:
        monkeypatch.setitem(tiny.SMALL, family, tiny.SMALL[family] | {"max_position_embeddings": positions})
    teaching = context(checkout, family)
    teaching = dataclasses.replace(teaching, data=SimpleNamespace(train=SimpleNamespace(longest=longest)))
    method = plugins.load("pipelines.compression.methods", "mobile")
    sizes = {"bottleneck": 4, "intermediate_size": 4, "feed_forwards": 1, "embedding_size": 4}
    monkeypatch.setattr(
        method.students.formats, "FLOATS", ()
    )  # so small a teacher has fewer weights than so many positions
    student = method.build(teaching, method.Params(**sizes))
    assert student.config.max_position_embeddings == expected
    row = torch.ones(1, expected, dtype=torch.int64)
    with torch.inference_mode():
        assert student(input_ids=row, attention_mask=row).logits.shape == (1, 3)


def test_a_teacher_of_int8_teaches_but_gives_no_layers(checkout: Path) -> None:
    teaching = context(checkout)
    quantized = dataclasses.replace(teaching, teacher=int8.quantize(teaching.teacher))
    for name in ("distilbert", "pkd", "theseus"):
        with pytest.raises(UsageError, match="teacher: its weights are int8 and cannot be trained, so a student"):
            compressed(name, quantized)
    for name in ("soft_targets", "tinybert", "bilstm_student", "mobile"):
        assert not quantized_weights.is_int8(compressed(name, quantized))


@pytest.mark.parametrize("name", STUDENTS)
def test_the_dev_split_chooses_among_the_weights_of_the_last_fit(name: str, checkout: Path) -> None:
    """A score that falls: the weights after the first of two steps are kept, and nothing else is scored."""
    scored: list[dict[str, torch.Tensor]] = []

    def watch(model: torch.nn.Module) -> dict[str, float]:
        scored.append({key: tensor.clone() for key, tensor in model.state_dict().items()})
        return {"accuracy": -float(len(scored))}

    student = compressed(name, dataclasses.replace(context(checkout), watch=watch), evaluations=2)
    assert len(scored) == 2
    after = student.state_dict()
    same = [key for key in scored[0] if scored[0][key].shape == after[key].shape]  # the table of words is cut
    assert len(same) >= len(after) - 1
    assert all(scored[0][key].equal(after[key]) for key in same)
    assert not all(scored[1][key].equal(after[key]) for key in same)


def test_rows_of_a_task_with_another_name_are_used_and_reported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another corpus with the same kind and labels cannot be told from another preparation of the teacher's."""
    monkeypatch.setenv("BERTLINE_QUIET", "")
    teaching = context(checkout)
    entry = Compress(teacher="t", data="it", method="pkd")
    capsys.readouterr()  # what was said while the teacher was made
    for name in ("t", "titles"):
        TASKS["single"].with_(splits=("train",), name=name).save(checkout / "encoded")
        compress_entry._check_rows("small", entry, teaching.task, Task.load(checkout / "encoded"))
        message = "compress small: the rows of it are of task titles; the teacher learned t\n"
        assert capsys.readouterr().err == (message if name == "titles" else "")


def test_rows_of_another_task_are_refused(checkout: Path) -> None:
    teaching = context(checkout)
    entry = Compress(teacher="t", data="it", method="pkd")
    task = TASKS["single"].with_(splits=("train",))
    compress_entry._check_rows("small", entry, teaching.task, task)
    for other in (TASKS["pair"], task.with_(labels=("film", "phone", "other"))):
        with pytest.raises(UsageError, match=r"compress\.small\.data: it has rows of task t, kind single; the teacher"):
            compress_entry._check_rows("small", entry, other, task)
    with pytest.raises(UsageError, match=r"compress\.small\.data: it has no split train, but dev, test"):
        compress_entry._check_rows("small", entry, teaching.task, task.with_(splits=("dev", "test")))
    with pytest.raises(UsageError, match=r"compress\.small\.dev: no split 'test'; there are: train"):
        compress_entry._check_rows("small", entry.model_copy(update={"dev": "test"}), teaching.task, task)
