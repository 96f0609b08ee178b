"""The Python door answers every kind from lists, tuples, frames and tables alike, and names the row that is wrong."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bertline
from bertline.answers import Answer, Entity
from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.inference.predictor import Predictor
from tests.support import exported, kinds, tiny
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported.models(tmp_path_factory)


def test_importing_it_takes_no_library_along() -> None:
    """A third of a second is the limit; it takes some milliseconds, since it imports two modules of this project."""
    code = (
        "import sys, time; start = time.process_time(); import bertline; spent = time.process_time() - start\n"
        "heavy = {'torch', 'transformers', 'pandas', 'mlflow', 'numpy', 'pyarrow', 'onnxruntime', 'pydantic', 'ray'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert spent < 0.3, spent"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_an_export_answers_without_torch(models: Path) -> None:
    code = (
        "import sys, bertline\n"
        f"model = bertline.load({str(models / 'single-onnx')!r})\n"
        "assert model.predict('犬') in model.labels and len(model.predict_proba(['犬'])[0]) == 3\n"
        "assert model.explain('私は犬が好き。').words\n"
        f"encoder = bertline.load({str(models / 'encoder-onnx')!r})\n"
        "assert encoder.embed('犬').shape == (32,) and len(encoder.fill_mask('[MASK]', top=3)[0]) == 3\n"
        "assert not {'torch', 'transformers', 'mlflow', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=os.environ | {"PYTHONUTF8": "1"})


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_every_form_of_the_same_rows_has_the_same_answers(kind: str, models: Path) -> None:
    model = bertline.load(models / f"{kind}-onnx")
    rows, arguments = exported.ROWS[kind], exported.ARGUMENTS[kind]
    assert (model.kind, model.name, model.version) == (kind, "", None)
    expected = model.predict(*arguments)
    assert len(expected) == 3
    forms: list[Any] = [rows, pd.DataFrame(rows), pa.Table.from_pylist(rows), pa.RecordBatch.from_pylist(rows)]
    forms += [[tuple(row.values()) for row in rows]] if len(arguments) == 2 else []
    forms += [pd.Series(arguments[0]), pa.array(arguments[0]), np.array(arguments[0])] if len(arguments) == 1 else []
    assert [model.predict(form) for form in forms] == [expected] * len(forms)
    assert [model.predict(*row.values()) for row in rows] == expected, "a single row has a single answer"
    renamed = pd.DataFrame(rows).add_prefix("my_")
    assert model.predict(renamed, **{name: f"my_{name}" for name in rows[0]}) == expected
    assert model.predict([]) == []
    table = model.table(rows)
    assert table.equals(Predictor.load(models / f"{kind}-onnx").predict(pa.Table.from_pylist(rows)))
    assert model.predict(rows, as_table=True).equals(table)


def test_answers_have_the_shape_of_their_kind(models: Path) -> None:
    single = bertline.load(models / "single-onnx")
    texts = exported.ARGUMENTS["single"][0]
    probabilities = single.predict_proba(texts)
    assert probabilities.shape == (3, 3)
    assert probabilities.dtype == np.float32
    assert [single.labels[i] for i in probabilities.argmax(axis=1)] == single.predict(texts)
    assert single.predict_proba(texts[0]).tolist() == probabilities[0].tolist()
    assert single.predict_proba([]).shape == (0, 3)
    (answer,) = bertline.load(models / "span-onnx").predict(["何が好き"], [exported.CONTEXT])
    assert isinstance(answer, Answer)
    assert exported.CONTEXT[answer.start : answer.end] == answer.text
    texts = exported.ARGUMENTS["tagging"][0]
    listed = [
        (text, entity)
        for text, row in zip(texts, bertline.load(models / "tagging-onnx").predict(texts), strict=True)
        for entity in row
    ]
    assert listed
    assert all(isinstance(entity, Entity) and text[entity.start : entity.end] == entity.text for text, entity in listed)
    rows = bertline.load(models / "tagging-onnx").table(texts).column("entity_scores").to_pylist()
    assert [entity.score for _, entity in listed] == [score for scores in rows for score in scores]
    choice = bertline.load(models / "choice-onnx")
    assert choice.predict("犬", ["x", "y", "z"]) in ("x", "y", "z")
    assert bertline.load(models / "regression-onnx").predict("犬") == bertline.load(models / "regression-onnx").predict(
        "犬", ""
    )


def test_words_are_joined_as_the_units_of_the_task_are(models: Path) -> None:
    model = bertline.load(models / "tagging-onnx")
    assert model.predict([["私は", "犬が"], ["映画"]]) == model.predict(["私は 犬が", "映画"])


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("single", (["a", None],), "text: row 1 is empty; text is expected"),
    ("single", (["a", 3],), "text: row 1 is 3; text is expected"),
    ("single", ([["a"]],), r"text: row 0 is \['a'\]; text is expected"),
    ("single", (3,), "3: a model of kind single takes a text, a list of texts, or a table"),
    ("single", ("a", "b"), "2 arguments; a model of kind single takes a text"),
    ("single", ({"text": "a"},), "a dict is one row; put it into a list"),
    ("single", (["\ud800"],), "half of a surrogate pair"),
    ("single", ([{"text": "a"}, "b"],), "row 1 is 'b'; a dict is expected"),
    ("single", (pd.DataFrame({"txt": ["a"]}),), r"no column 'text' \(did you mean 'txt'\?\); there are: txt; name the"),
    ("single", (pd.DataFrame({"text": ["a", float("nan")]}),), "text: row 1 is empty"),
    ("single", (pd.DataFrame({"text": ["a", 1.5]}),), "text: row 1 is 1.5; text is expected"),
    ("single", (pa.table({"text": ["a", None]}),), "row 1 has no text"),
    ("single", (pa.table({"text": [1]}),), "holds int64; text is expected"),
    ("single", (pd.DataFrame([["a", "b"]], columns=["text", "text"]),), "two columns are named 'text'; rename one"),
    ("single", (pa.table([["a"], ["b"]], names=["text", "text"]),), "two columns are named 'text'; rename one"),
    ("pair", ("a",), "'a': a model of kind pair takes two texts"),
    ("pair", (["a"], ["b", "c"]), "the lists differ in their rows: text has 1 and text_pair has 2"),
    ("pair", ([("a", "b"), ("c",)],), r"row 1 is \('c',\); a model of kind pair takes two texts"),
    ("choice", ("a", ["b"]), "choices: row 0 is .*; a list of 3 texts is expected"),
    ("choice", (pa.table({"text": ["a"], "choices": [["a", None, "c"]]}),), "row 0: choice 1 is empty"),
    ("choice", (pa.table({"text": ["a"], "choices": [[1, 2, 3]]}),), r"holds list<item: int64>; lists of text"),
]


@pytest.mark.parametrize(("kind", "arguments", "sentence"), WRONG, ids=[sentence for _, _, sentence in WRONG])
def test_wrong_input_is_one_sentence(kind: str, arguments: tuple[Any, ...], sentence: str, models: Path) -> None:
    with pytest.raises(bertline.InputError, match=sentence) as raised:
        bertline.load(models / f"{kind}-onnx").predict(*arguments)
    assert "\n" not in str(raised.value)


def test_columns_of_a_frame_may_have_numbers_for_names(models: Path) -> None:
    model, frame = bertline.load(models / "single-onnx"), pd.DataFrame([["label", "犬"], ["label", "映画"]])
    number: Any = 1
    assert model.predict(frame, text="1") == model.predict(frame, text=number) == model.predict(["犬", "映画"])


def test_text_may_have_any_of_arrows_types(models: Path) -> None:
    model, texts = bertline.load(models / "single-onnx"), pa.array(["犬", "映画"])
    views = texts.cast(pa.string_view())
    of_views = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), views)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), texts)
    for column in (texts.dictionary_encode(), texts.cast(pa.large_string()), views, of_views, runs):
        assert model.predict(pa.table({"text": column})) == model.predict(["犬", "映画"]), column.type


def test_lists_may_have_any_of_arrows_types_or_be_arrays_of_numpy(models: Path) -> None:
    model, rows = bertline.load(models / "choice-onnx"), pa.table({"text": ["犬", "映画", "試合"]})
    choices = [["x", "y", "z"], ["a", "b", "c"], ["1", "2", "3"]]
    text, view = pa.string(), pa.string_view()
    types = [pa.list_(text, 3), pa.large_list(text), pa.list_view(text), pa.large_list_view(text), pa.list_(view)]
    expected = model.predict(rows["text"].to_pylist(), choices)
    for held in types:
        table = rows.append_column("choices", pa.array(choices, held))
        assert model.predict(table) == expected, held
        assert model.predict(table.slice(1)) == expected[1:], held
    assert model.predict(rows.append_column("choices", pa.array(choices)).to_pandas()) == expected
    words = pa.table({"words": [["The", "cat"], ["a"]]})
    tagging = bertline.load(models / "tagging-onnx")
    assert tagging.predict(words.to_pandas()["words"]) == tagging.predict(words["words"])


def test_a_pickled_model_opens_its_folder_again(models: Path) -> None:
    model = bertline.load(models / "single-onnx", threads=1)
    again = pickle.loads(pickle.dumps(model))
    assert (again.folder, again._options) == (model.folder, ("", 1, "fp32"))
    assert again.predict_proba("犬").tolist() == model.predict_proba("犬").tolist()


def test_a_missing_value_far_down_a_table_is_named_by_its_row(models: Path) -> None:
    rows = pa.table({"text": ["犬"] * 5000 + [None]})
    with pytest.raises(bertline.InputError, match="row 5000 has no text"):
        bertline.load(models / "single-onnx").predict(rows)


def test_what_a_model_cannot_do_is_said(models: Path, checkout: Path) -> None:
    encoder, export = bertline.load(models / "encoder"), bertline.load(models / "single-onnx")
    half: Any = 2.5
    two: Any = "2"
    refusals = {
        "a pretrained encoder, which has no head; use embed or fill_mask": lambda: encoder.predict("a"),
        "it is an export, and holds no encoder": lambda: export.embed("a"),
        "it is no export of an encoder": lambda: bertline.load(models / "encoder", "onnx").embed("a"),
        "an export, which torch does not open": lambda: bertline.load(models / "encoder-onnx", "torch").embed("a"),
        "kind regression has no probabilities": lambda: bertline.load(models / "regression-onnx").predict_proba("a"),
        "explain is for models of kind single": lambda: bertline.load(models / "pair-onnx").explain("a"),
        r"^the text has no \[MASK\]": lambda: encoder.fill_mask("a"),
        r"^row 1: the text has no \[MASK\]": lambda: encoder.fill_mask(["[MASK]", "a"]),
        "top: 2.5; 1 or more guesses are expected": lambda: encoder.fill_mask("[MASK]", top=half),
        "threads: '2'; a whole number from 0 is expected": lambda: bertline.load(models / "encoder", "", two),
        "threads: -1; a whole number from 0 is expected": lambda: bertline.load(models / "encoder", "", -1),
        "nowhere/here: no such folder": lambda: bertline.load("nowhere/here"),
        "no config.json; it is not a model folder": lambda: bertline.load(models),
        "no model is registered in this checkout": lambda: bertline.load("nothing@champion"),
        "no input column 'txt'": lambda: export.predict([{"text": "a"}], txt="a"),
        "text: names of columns need a table": lambda: export.predict(["a"], text="a"),
    }
    for sentence, ask in refusals.items():
        with pytest.raises(bertline.InputError, match=sentence):
            ask()


@pytest.mark.parametrize("name", ["encoder", "encoder-onnx"])
def test_an_encoder_embeds_and_fills(name: str, models: Path) -> None:
    encoder = bertline.load(models / name)
    vectors = encoder.embed(["私は犬が好き。", "映画"], normalize=True)
    assert vectors.shape == (2, 32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert encoder.embed("映画", normalize=True).tolist() == vectors[1].tolist()
    assert encoder.embed("映画", pooling="cls").tolist() != encoder.embed("映画").tolist()
    assert encoder.embed([]).shape == (0, 32)
    (guesses,) = encoder.fill_mask("私は[MASK]が好き。", top=3)
    assert len(guesses) == 3
    opened = encoder._filler
    assert encoder.fill_mask(["私は[MASK]が好き。"], top=2) == [[guesses[:2]]]
    assert encoder._filler is opened, "an encoder is opened once, whatever the number of guesses"
    with pytest.raises(bertline.UsageError, match="top: 0; 1 or more guesses are expected"):
        encoder.fill_mask("[MASK]", top=0)


def test_a_copy_and_an_export_answer_as_the_model_does(tmp_path: Path) -> None:
    model = bertline.load(tiny.classifier(tmp_path / "model"))
    texts = exported.ARGUMENTS["single"][0]
    copy, export = bertline.load(model.save(tmp_path / "copy")), bertline.load(model.export(tmp_path / "onnx"))
    assert copy.predict_proba(texts).tolist() == model.predict_proba(texts).tolist()
    assert export.predict_proba(texts) == pytest.approx(model.predict_proba(texts), abs=1e-5)
    with pytest.raises(bertline.InputError, match="copy: it exists"):
        model.save(tmp_path / "copy")


def test_an_explanation_is_the_change_when_each_word_is_masked(models: Path) -> None:
    """The second opinion is computed from token ids by hand."""
    folder, text = models / "single-onnx", "私は犬が好き。 試合"
    model, predictor = bertline.load(folder), Predictor.load(folder)
    explanation = model.explain(text)
    assert "".join(word.text for word in explanation.words) == text.replace(" ", "")
    assert all(text[word.start : word.end] == word.text for word in explanation.words)
    assert explanation.label == model.predict(text)
    assert explanation.score == pytest.approx(model.predict_proba(text).max(), abs=1e-6)
    tokenizer = predictor.tokenizer
    ids = tokenizer.encode([text]).values.tolist()
    pieces, at = tokenizer.tokens(ids), 0
    for word in explanation.words:
        count = 1
        while at + count < len(ids) and pieces[at + count].startswith("##"):
            count += 1
        masked = [*ids[:at], *[tokenizer.mask_id] * count, *ids[at + count :]]
        whole = np.array([[tokenizer.cls_id, *masked, tokenizer.sep_id]] * 2, np.int64)
        inputs = {"input_ids": whole, "attention_mask": np.ones_like(whole), "token_type_ids": np.zeros_like(whole)}
        logits = predictor.runtime.logits(inputs)[0].astype(np.float64)
        powers = np.exp(logits - logits.max())
        without = float((powers / powers.sum())[model.labels.index(explanation.label)])
        assert word.change == pytest.approx(explanation.score - without, abs=1e-5), word
        at += count
    assert at == len(ids)
    assert explanation.most(1)[0] == max(explanation.words, key=lambda word: abs(word.change))
    other = next(label for label in model.labels if label != explanation.label)
    assert model.explain(text, other).label == other
    assert len(model.explain("犬 " * 500).words) <= predictor.max_length - 2
    assert model.explain("").words == []
    assert model.explain(np.str_(text)) == explanation


@pytest.mark.parametrize(("family", "tokens"), [("roberta", "bpe"), ("albert", "unigram"), ("bert", "wordpiece")])
def test_words_are_whole_characters_without_white_space(family: str, tokens: str, tmp_path: Path) -> None:
    """Bytes of one character are one word, and Japanese is not one word for having no spaces."""
    source, folder = tiny.of_family(family, tmp_path / "encoder", tokens=tokens), tmp_path / "model"
    folder.mkdir()
    model_folder.save(new_head.for_task(source, tiny.TASK), folder, source, tiny.TASK)
    model = bertline.load(folder)
    for text in ("hello  world", "私は 犬が好き。😀", "私は犬が好き。", " a 私は"):
        words = model.explain(text).words
        assert "".join(word.text for word in words) == "".join(text.split())
        assert all(word.text == text[word.start : word.end] for word in words)
        assert all(one.end <= other.start for one, other in pairwise(words))
        assert text.isascii() or len(words) > 2
    assert [word.text for word in model.explain("hello  world").words] == ["hello", "world"]
    assert model.explain("   ").words == []
