"""Changes that would change what a model or its rows mean: each is refused in a sentence, or counted where it shows.

A test for each, since a fuzz cannot tell a changed meaning from another input.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.core import paths
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.stages import encode, import_weights
from pipelines.text import tokenizer
from pipelines.training.batches import Encoded
from tests.fuzz import seeds


def edit(file: str, **changes: Any) -> Callable[[Path], None]:
    """Values of a JSON file in a folder replaced; None removes one."""

    def change(folder: Path) -> None:
        values = json.loads((folder / file).read_text()) | changes
        present = {key: value for key, value in values.items() if value is not None}
        (folder / file).write_text(json.dumps(present))

    return change


def of_lines(file: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text("\n".join(change((folder / file).read_text().split("\n"))))


def cut(file: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) // 2])

    return change


def exchanged(lines: list[str]) -> list[str]:
    return [*lines[:20], lines[21], lines[20], *lines[22:]]


MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "labels in another order": (edit("task.json", labels=["phone", "film", "sport"]), "task.json has the labels"),
    "labels left out": (edit("task.json", labels=["film", "phone"]), "task.json has the labels"),
    "a label twice": (edit("task.json", labels=["film", "film", "sport"]), "one of them is empty or occurs twice"),
    "labels that are one text": (edit("task.json", labels="film"), "labels: 'film': input should be a valid array"),
    "another kind": (edit("task.json", kind="span"), "labels: there are 3; kind span has none"),
    "an unknown kind": (edit("task.json", kind="singel"), "no kind of rows 'singel' (did you mean 'single'?)"),
    "another metric": (edit("task.json", metric="pearson"), "no metric of kind single 'pearson'"),
    "a number as a name": (edit("task.json", name=3), "name: 3: input should be a valid string"),
    "a key of no meaning": (edit("task.json", lables=[]), "no key 'lables' (did you mean 'labels'?)"),
    "a split that leaves its folder": (edit("task.json", splits=["../x"]), "splits.0: '../x'"),
    "a submission that leaves its folder": (edit("task.json", submission="../x"), "submission: '../x'"),
    "half a vocabulary": (of_lines("vocab.txt", lambda lines: lines[: len(lines) // 2]), "its config.json says"),
    "a line twice": (of_lines("vocab.txt", lambda lines: [*lines[:9], lines[8], *lines[9:]]), "is on line 9 too"),
    "two lines exchanged": (of_lines("vocab.txt", exchanged), "gives other ids than in training"),
    "a line changed": (of_lines("vocab.txt", lambda lines: [*lines[:30], "犬犬", *lines[31:]]), "gives other ids than"),
    "another dictionary": (
        edit("tokenizer_config.json", mecab_kwargs={"mecab_dic": "unidic_lite"}),
        "gives other ids than in training",
    ),
    "other sub-words": (
        edit("tokenizer_config.json", subword_tokenizer_type="character"),
        "gives other ids than in training",
    ),
    "a layer more": (edit("config.json", num_hidden_layers=3), "has 3 layers, its weights have 2"),
    "a layer less": (edit("config.json", num_hidden_layers=1), "its weights have layers that its config.json does not"),
    "another width": (edit("config.json", intermediate_size=32), "are missing or of another size"),
    "a type that is none": (edit("config.json", hidden_size="wide"), "its config.json is not valid"),
    "fewer heads than none": (edit("config.json", num_attention_heads=-2), "has num_attention_heads -2"),
    "an unknown family": (edit("config.json", model_type="bertt"), "its config.json is not valid"),
    "weights cut off": (cut("model.safetensors"), "its weights are not readable"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_changed_model_folder_is_refused(name: str, place: Path) -> None:
    change, message = MODELS[name]
    shutil.copytree("seeds/single/model", "mutant")
    change(Path("mutant"))
    with pytest.raises(InputError) as caught:
        Predictor.load(Path("mutant"))
    assert message in str(caught.value)


EXPORTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "labels in another order": (edit("task.json", labels=["phone", "film", "sport"]), "model.onnx ['film', 'phone', "),
    "labels left out": (edit("task.json", labels=["film", "phone"]), "model.onnx ['film', 'phone', "),
    "another kind": (edit("task.json", kind="pair"), "task.json has the kind 'pair', model.onnx 'single'"),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_a_changed_export_is_refused(name: str, place: Path) -> None:
    change, message = EXPORTED[name]
    shutil.copytree("seeds/single/onnx", "mutant")
    Predictor.load(Path("mutant"))
    change(Path("mutant"))
    with pytest.raises(InputError) as caught:
        Predictor.load(Path("mutant"))
    assert message in str(caught.value)


def test_a_tokenizer_with_changed_case_is_refused(place: Path) -> None:
    shutil.copytree("encoders/mini-en", "mutant")
    was = {tokenizer.OURS: {"fingerprint": tokenizer.fingerprint(tokenizer.load(Path("mutant")))}}
    edit("tokenizer_config.json", **was)(Path("mutant"))
    tokenizer.load(Path("mutant"))
    cased = not json.loads(Path("mutant/tokenizer_config.json").read_text())["do_lower_case"]
    edit("tokenizer_config.json", do_lower_case=cased)(Path("mutant"))
    with pytest.raises(InputError, match="gives other ids than in training"):
        tokenizer.load(Path("mutant"))


PUBLISHED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a layer more": (edit("config.json", num_hidden_layers=3), "has 3 layers, its weights have 2"),
    "a layer less": (edit("config.json", num_hidden_layers=1), "its weights have layers that its config.json does not"),
    "an unknown family": (edit("config.json", model_type="gpt9"), "no family 'gpt9'"),
    "half a vocabulary": (of_lines("vocab.txt", lambda lines: lines[: len(lines) // 2]), "its config.json says"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_changed_published_checkpoint_is_refused(name: str, place: Path) -> None:
    change, message = PUBLISHED[name]
    shutil.copytree("seeds/encoder", "mutant")
    change(Path("mutant"))
    Path("params.yaml").write_text("import_weights: {it: {source: mutant}}")
    with pytest.raises(InputError) as caught:
        import_weights.main("it")
    assert message in str(caught.value)
    assert not paths.model("it").exists()


def of_table(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def written(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / "train.parquet")), folder / "train.parquet")

    return written


def column(name: str, make: Callable[[pa.ChunkedArray], Any]) -> Callable[[Path], None]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, make(table.column(name)))

    return of_table(change)


ENCODED: dict[str, tuple[Callable[[Path], None], str]] = {
    "an id of no word": (
        column("input_ids", lambda ids: pa.array([[65535] * len(row) for row in ids.to_pylist()], ids.type)),
        "the id 65535 is not below",
    ),
    "a label of no class": (
        column("label", lambda values: pa.array([9] * len(values), values.type)),
        "the label 9 is not a number",
    ),
    "a negative label": (
        column("label", lambda values: pa.array([-1] * len(values), values.type)),
        "the label -1 is not a number",
    ),
    "no labels": (column("label", lambda values: pa.nulls(len(values), values.type)), "24 rows have no label"),
    "labels as text": (
        column("label", lambda values: pc.cast(values, pa.string())),
        "'label' holds string; int32 is",
    ),
    "no ids": (of_table(lambda table: table.drop_columns("input_ids")), "no column 'input_ids'"),
    "an empty row": (
        column("input_ids", lambda ids: pa.array([[]] * len(ids), ids.type)),
        "fewer than the two tokens around",
    ),
    "no rows": (of_table(lambda table: table.slice(0, 0)), "no rows to train on"),
    "a first text that is too long": (
        column("first_length", lambda values: pa.array([999] * len(values), values.type)),
        "longer than its whole sequence",
    ),
    "another vocabulary": (edit("encoding.json", vocab_size=20), "is not below 20, the size of the vocabulary"),
    "a size of no number": (edit("encoding.json", vocab_size="300"), "vocab_size '300'; whole numbers are expected"),
    "another kind": (edit("task.json", kind="tagging", metric="f1"), "no column 'part'"),
}


def test_a_changed_file_of_encoded_choices_is_refused(place: Path) -> None:
    shutil.copytree("seeds/choice/encoded", "mutant")
    Encoded.read(Path("mutant"), "train")
    column("first_lengths", lambda values: pa.array([row[:-1] for row in values.to_pylist()], values.type))(
        Path("mutant")
    )
    with pytest.raises(InputError, match="the numbers of first lengths and sequences differ"):
        Encoded.read(Path("mutant"), "train")


@pytest.mark.parametrize("name", ENCODED)
def test_a_changed_file_of_encoded_rows_is_refused(name: str, place: Path) -> None:
    change, message = ENCODED[name]
    shutil.copytree("seeds/single/encoded", "mutant")
    change(Path("mutant"))
    with pytest.raises(InputError) as caught:
        Encoded.read(Path("mutant"), "train")
    assert message in str(caught.value)


READABLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a text that is missing": (
        column("text", lambda values: pa.array([None, *values.to_pylist()[1:]], pa.string())),
        "a row has no text",
    ),
    "a text that is no UTF-8": (
        column("text", lambda values: pa.array([b"\xff\xfe"] * len(values), pa.binary()).view(pa.string())),
        "its rows cannot be read",
    ),
    "a column twice": (of_table(lambda table: table.append_column("text", table.column("label"))), "named 'text'"),
    "a label of no class": (
        column("label", lambda values: pa.array(["x"] * len(values))),
        "the label 'x' is not one of film, phone, sport",
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_a_changed_file_of_rows_is_refused(name: str, place: Path) -> None:
    change, message = READABLE[name]
    shutil.copytree("seeds/single/rows", paths.rows("it"))
    change(paths.rows("it"))
    Path("params.yaml").write_text("encode: {it: {task: it, vocab: seeds/tokenizer, max_length: 32}}")
    with pytest.raises(InputError) as caught:
        encode.main("it")
    assert message in str(caught.value)


REQUESTS = {
    "half of a surrogate pair": (b'{"rows": [{"text": "\\ud800"}]}', "the body: Invalid JSON"),
    "NaN": (b'{"rows": [{"text": NaN}]}', "rows.0.text: Input should be a valid string"),
    "an infinite number": (b'{"rows": [{"text": 1e999}]}', "rows.0.text: Input should be a valid string"),
    "another column": (b'{"rows": [{"text": "a", "text_pair": "b"}]}', "takes text, but not text_pair"),
    "no text": (b'{"rows": [{}]}', "row 0 has no text"),
    "no rows": (b'{"rows": []}', "rows: List should have at least 1 item"),
    "no JSON": (b'{"rows": [', "the body: Invalid JSON"),
    "a key twice": (b'{"rows": [{"text": "a"}], "rows": [{"text": "b"}]}', "the key 'rows' occurs twice"),
    "a text twice": (b'{"rows": [{"text": "a", "te\\u0078t": "b"}]}', "the key 'text' occurs twice"),
    "an unknown key": (b'{"rows": [{"text": "a"}], "score": true}', "score: Extra inputs are not permitted"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wrong_request_is_refused(name: str, place: Path) -> None:
    body, message = REQUESTS[name]
    with pytest.raises(InputError) as caught:
        seeds.ask("single", body)
    assert message in str(caught.value)
    assert "1e999" not in str(caught.value), "a refused body is not echoed"
