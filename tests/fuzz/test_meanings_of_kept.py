"""Damaged files between the stages: encoded rows, scored files, caches, and weights that are no numbers."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from flows import prefect_events
from flows.local import prefect_settings
from pipelines.checkpoints import loading
from pipelines.compression import teacher_outputs
from pipelines.core import json_file
from pipelines.core.errors import InputError
from pipelines.evaluation import drift
from pipelines.graph import dvc_steps, executor
from pipelines.inference import onnx_numbers
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import ONNX_FILE
from pipelines.lifecycle import window_drift
from pipelines.measurement import drift_profile
from pipelines.tracking import ledger_cache
from pipelines.training.batches import Encoded
from tests.fuzz import seeds
from tests.support import own_formats

Rows = list[dict[str, Any]]


def row(number: int, **values: Any) -> Callable[[Rows], object]:
    return lambda rows: rows[number].update(values)


def every(**values: Any) -> Callable[[Rows], object]:
    return lambda rows: [row.update(values) for row in rows]


ENCODED: dict[str, tuple[str, Callable[[Rows], object], str]] = {
    "no ids in a row": ("pair", row(3, input_ids=[]), "row 3: a sequence has fewer than the two tokens"),
    "an id of no word": ("pair", row(5, input_ids=[2, 9999, 3]), "row 5: the id 9999 is not below"),
    "a long first text": ("pair", row(4, first_length=500), "row 4: the first text is longer than its whole sequence"),
    "no first length": ("pair", row(6, first_length=None), "row 6 has no first_length"),
    "a label of no class": ("pair", row(7, label=9), "row 7: the label 9 is not a number from 0 to 1"),
    "no sequences at all": ("choice", every(input_ids=[], first_lengths=[]), "row 0 has 0"),
    "fewer sequences": ("choice", row(2, input_ids=[[2, 3]], first_lengths=[2]), "row 0 has 3, row 2 1"),
    "no ids of a choice": ("choice", row(2, input_ids=[[], [2, 3], [2, 3]]), "row 2: a sequence has fewer than"),
    "fewer tags": ("tagging", row(1, labels=[-100]), "row 1: the numbers of tags and tokens differ"),
    "no tags": ("tagging", row(1, labels=None), "row 1 has no labels"),
    "a tag of no entity": (
        "tagging",
        lambda rows: rows[2]["labels"].__setitem__(1, 99),
        "the label 99 is not a number",
    ),
    "no number": ("regression", row(2, label=math.inf), "row 2: a label is not a finite number"),
    "an end of no token": ("span", row(2, end_position=999), "row 2: the label 999 is not a number from"),
    "no end": ("span", row(2, end_position=None), "row 2 has no end_position"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_a_wrong_encoded_row_is_refused(name: str, place: Path) -> None:
    kind, change, message = ENCODED[name]
    shutil.copytree(Path("seeds") / kind / "encoded", "mutant")
    table = pq.read_table("mutant/train.parquet")
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), "mutant/train.parquet")
    with pytest.raises(InputError) as caught:
        Encoded.read(Path("mutant"), "train")
    assert str(caught.value).startswith("mutant/train.parquet: ")
    assert message in str(caught.value)


def test_a_row_without_ids_is_named(place: Path) -> None:
    shutil.copytree("seeds/pair/encoded", "mutant")
    table = pq.read_table("mutant/train.parquet")
    field = table.schema.field("input_ids").with_nullable(True)
    rows = table.to_pylist()
    rows[3]["input_ids"] = None
    column = pa.array([row["input_ids"] for row in rows], field.type)
    at = table.schema.get_field_index("input_ids")
    pq.write_table(table.set_column(at, field, column), "mutant/train.parquet")
    with pytest.raises(InputError, match=r"mutant/train\.parquet: a row has no input_ids: row 3"):
        Encoded.read(Path("mutant"), "train")


def with_column(name: str, make: Callable[[pa.ChunkedArray], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, make(table.column(name)))


def values(change: Callable[[list[Any]], list[Any]], kind: pa.DataType | None = None) -> Callable[[Any], Any]:
    return lambda column: pa.array(change(column.to_pylist()), kind)


SCORED: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "no text": ("single", lambda table: table.drop_columns("text"), "no column 'text'"),
    "no version": ("single", lambda table: table.drop_columns("said_model_version"), "no column 'said_model_version'"),
    "nothing said": (
        "single",
        lambda table: table.drop_columns(["said_label", "said_score"]),
        "no column has answers of a model, such as said_label",
    ),
    "a missing text": ("single", with_column("text", values(lambda v: [None, *v[1:]])), "'text': a row has no text"),
    "numbers as text": (
        "single",
        with_column("text", values(lambda v: [*range(len(v))])),
        "'text' holds int64",
    ),
    "nested text": ("single", with_column("text", values(lambda v: [[x] for x in v])), "holds list<"),
    "records as labels": ("single", with_column("said_label", values(lambda v: [{"x": 1}] * len(v))), "holds struct<"),
    "numbers as labels": (
        "single",
        with_column("said_label", values(lambda v: [1] * len(v))),
        "_label' holds int64",
    ),
    "text as a score": (
        "single",
        with_column("said_score", values(lambda v: ["x"] * len(v))),
        "_score' holds str",
    ),
    "a score of NaN": (
        "single",
        with_column("said_score", values(lambda v: [math.nan, *v[1:]], pa.float32())),
        "'said_score': a row has NaN or an infinite number",
    ),
    "a version as text": (
        "single",
        with_column("said_model_version", values(lambda v: ["1"] * len(v))),
        "said_model_version of the last row is '1', not a version",
    ),
    "text as an answer": (
        "span",
        with_column("said_answer", values(lambda v: [1] * len(v))),
        "_answer' holds int64",
    ),
    "a choice that is missing": (
        "choice",
        with_column("choices", values(lambda v: [[None, "a", "b"], *v[1:]])),
        "'choices': a row has a null inside its list",
    ),
    "choices as text": ("choice", with_column("choices", values(lambda v: ["x"] * len(v))), "'choices' holds string"),
}


def measured(kind: str, table: pa.Table) -> list[drift.Shift]:
    """What `watch` measures of a scored file."""
    file = Path("scored.parquet")
    pq.write_table(table, file)
    assert window_drift.scored_by_version(file, "said_")
    profile = drift_profile.of_scored(file, Path("seeds") / kind / "model", "said_")
    return drift.shifts(seeds.profile(kind), profile, dict.fromkeys(drift.STATISTICS, 0.1))


@pytest.mark.parametrize("name", SCORED)
def test_a_wrong_scored_file_is_refused(name: str, place: Path) -> None:
    kind, change, message = SCORED[name]
    with pytest.raises(InputError) as caught:
        measured(kind, change(seeds.scored(kind)))
    assert str(caught.value).startswith("scored.parquet: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("form", ["dictionary", "large"])
def test_text_in_other_forms_is_measured_all_the_same(form: str, place: Path) -> None:
    table = seeds.scored("single")
    for name in ("text", "said_label"):
        column = table.column(name)
        changed = column.cast(pa.large_string()) if form == "large" else column.dictionary_encode()
        table = table.set_column(table.column_names.index(name), name, changed)
    assert measured("single", table) == measured("single", seeds.scored("single"))


DAMAGED = (b"", b"{", b"[1]", b'{"pid": "x", "began": []}', b"\xff\0", b'{"a": NaN}', b'{"read": [], "write": 3}', None)


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_cache_is_rebuilt(content: bytes | None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`content` None is a folder of that name."""

    def damage(file: Path) -> Path:
        shutil.rmtree(file, ignore_errors=True)
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.mkdir() if content is None else file.write_bytes(content)
        return file

    monkeypatch.setattr(prefect_events, "_send", lambda *arguments: True)
    damage(prefect_events.TOLD)
    prefect_events.tell_once("drift it", "w", "drift", "it")
    assert json.loads(prefect_events.TOLD.read_text())["drift it"] == "w"
    damage(prefect_settings.PIDS / "prefect")
    assert prefect_settings.running("prefect") is None
    assert ledger_cache.events(damage(Path("kept/ledger.json"))) == []
    damage(executor.SECONDS_FILE)
    assert executor.seconds() in ({}, {"write": 3})
    dvc_steps._remove_stale_locks(lock := damage(Path("kept/rwlock")))
    assert not lock.exists()
    array = teacher_outputs.Array((2, 3), "float32", True, "kept/states")
    assert not teacher_outputs._whole(damage(Path("kept/done.json")), {"states": [2, 3, "float32"]}, {"states": array})
    assert window_drift.kept_lines(damage(Path("kept/window.parquet")), Path("seeds")) is None
    assert {*json_file.cached(damage(Path("kept/any.json")))} <= {"pid", "began", "read", "write"}


def test_truncated_teacher_outputs_are_computed_again(place: Path) -> None:
    Path("kept").mkdir(exist_ok=True)
    array = teacher_outputs.Array((2, 3), "float32", True, "kept/states")
    Path("kept/done.json").write_text('{"states": [2, 3, "float32"]}')
    for size, whole in ((24, True), (23, False)):
        Path("kept/states").write_bytes(b"\0" * size)
        about: dict[str, list[Any]] = {"states": [2, 3, "float32"]}
        assert teacher_outputs._whole(Path("kept/done.json"), about, {"states": array}) is whole


MODELS = [*(f"{kind}/model" for kind in seeds.KINDS), *(f"own/{name}" for name in own_formats.NAMES)]


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("source", MODELS)
def test_a_weight_that_is_no_number_is_refused(source: str, number: float, place: Path) -> None:
    shutil.copytree(Path("seeds") / source, "mutant")
    file = loading.weights(Path("mutant"))
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    changed = next(
        name for name, tensor in sorted(tensors.items()) if tensor.is_floating_point() and tensor.numel() > 1
    )
    tensors[changed].view(-1)[-1] = number
    save_file(tensors, file, metadata)
    with pytest.raises(InputError, match=r"mutant: .* holds what is no number; its weights are damaged"):
        Predictor.load(Path("mutant"))


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("word", [False, True])
def test_a_weight_of_an_export_that_is_no_number_is_refused(word: bool, number: float, place: Path) -> None:
    """One of a layer is told when it is opened, one of a single word when it is to be promoted."""
    shutil.copytree("seeds/single/onnx", "mutant")
    onnx_numbers.require(Path("mutant"))
    model = onnx.load(Path("mutant") / ONNX_FILE)
    name = next(
        weight.name for weight in model.graph.initializer if ("word" if word else "intermediate") in weight.name
    )
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    numbers = onnx.numpy_helper.to_array(weight).copy()
    numbers.reshape(-1)[-1] = number
    weight.CopyFrom(onnx.numpy_helper.from_array(numbers, name))
    onnx.save(model, Path("mutant") / ONNX_FILE)
    with pytest.raises(InputError, match=r"mutant/model\.onnx: .* holds NaN or infinity"):
        onnx_numbers.require(Path("mutant"))
    if not word:
        with pytest.raises(InputError, match=r"mutant/model\.onnx: it returns NaN or infinity"):
            Predictor.load(Path("mutant"))
