"""The page at / in a real browser: what it shows is what the models predict."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core.task import Task
from pipelines.inference.fill_mask import MaskFiller
from pipelines.inference.predictor import Predictor
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import compressed, kinds, served, tiny
from tests.support.browser import Tab

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=\"document.title='changed'\"> <b>犬</b>"
EMOJI = "😀👩‍👩‍👧私は犬が好き。😀映画の公開日が決定😀"
JAPANESE, ENGLISH = "新型スマートフォンの予約開始", "a new phone"
CARDS = "#results .card"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each kind, and a second classifier."""
    place = tmp_path_factory.mktemp("models")
    models = {"one": tiny.classifier(place / "one"), "two": tiny.classifier(place / "two", seed=6)}
    for kind in ("pair", "regression", "span", "tagging", "choice"):
        models[kind] = compressed.teacher("bert", kind, place / kind)
    Task.load(models["span"]).with_(unanswerable=True).save(models["span"])
    return models


@pytest.fixture(scope="module")
def address(folders: dict[str, Path]) -> Iterator[str]:
    with served.serving(served.catalogue(folders)) as address:
        yield address


@pytest.fixture(scope="module")
def predict(folders: dict[str, Path]) -> Callable[..., dict[str, Any]]:
    """The prediction for one row, without the service."""
    predictors = {name: Predictor.load(folder, threads=1) for name, folder in folders.items()}

    def predict(name: str, **row: Any) -> dict[str, Any]:
        kind = predictors[name].task.kind
        batch = kinds.batch(kind, row)
        return predictors[name].predict(batch).to_pylist()[0]

    return predict


def answered(tab: Tab, count: int = 1) -> None:
    """Wait for the cards of `count` models."""
    tab.until(f"document.querySelectorAll('{CARDS}').length === {count}")


def percent(probability: float) -> str:
    return f"{100 * probability:.1f}%"


def bars(tab: Tab, card: str = CARDS) -> list[list[str]]:
    """The name and the probability of each bar."""
    return [line.split("\n") for line in tab.texts(f"{card} .bars li")]


def test_a_click_shows_a_bar_for_each_label(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    tab.fill("[name=text]", JAPANESE)
    tab.click("#predict")
    answered(tab)
    scores = dict(zip(tiny.LABELS, predict("one", text=JAPANESE)["scores"], strict=True))
    likeliest = sorted(scores, key=lambda label: -scores[label])
    assert bars(tab) == [[label, percent(scores[label])] for label in likeliest]
    widths = tab.value("Array.from(document.querySelectorAll('.track span'), (bar) => parseFloat(bar.style.width))")
    assert widths == pytest.approx([100 * scores[label] for label in likeliest], abs=0.01)
    assert tab.texts(f"{CARDS} h2") == ["one version 1"]
    (latency,) = tab.texts(".latency")
    assert latency.endswith(" ms")
    assert float(latency.split()[0]) > 0
    assert tab.value("document.querySelector('[aria-live]').textContent") == f"one version 1: {likeliest[0]}"


def test_the_keyboard_is_enough(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    seen = []
    tab.value("document.activeElement.blur()")
    name = "(({id, name, dataset, innerText}) => id || name || dataset.language || innerText)(document.activeElement)"
    for _ in range(8):
        tab.press("Tab")
        seen.append(tab.value(name))
        assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid", seen
    assert seen == ["bertline", "API", "model", "other", "text", "predict", "ja", "en"]
    tab.value("document.querySelector('[name=text]').focus()")
    tab.insert("犬")
    tab.press("Enter", "shift")
    tab.insert("猫")
    assert tab.texts(CARDS) == [], "Shift-Enter starts a line"
    tab.press("Enter")
    answered(tab)
    assert bars(tab)[0][0] == predict("one", text="犬\n猫")["label"]
    assert tab.value("document.activeElement.name") == "text", "the focus stays"


def test_a_text_that_is_longer_than_the_model_reads_is_marked(tab: Tab) -> None:
    for text, rest in (
        (JAPANESE, []),
        (JAPANESE * 40, ["The model reads 64 tokens; the rest of the text was left out."]),
    ):
        tab.fill("[name=text]", text)
        tab.click("#predict")
        tab.until("document.querySelector('#results').hasAttribute('aria-busy') === false")
        answered(tab)
        assert tab.texts(f"{CARDS} .rest") == rest


def test_two_models_are_shown_beside_each_other(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    options = tab.value("Array.from(document.querySelectorAll('#other option'), (option) => option.value)")
    assert options == ["", "two", "tagging"], "models with the same inputs"
    tab.fill("[name=text]", ENGLISH)
    tab.press("Enter")
    answered(tab)
    tab.choose("#other", "two")
    answered(tab, 2)
    first, second = predict("one", text=ENGLISH), predict("two", text=ENGLISH)
    assert tab.texts(f"{CARDS} h2") == ["one version 1", "two version 1"]
    leading = [bars(tab, f"{CARDS}:nth-child({place})")[0] for place in (1, 2)]
    assert leading == [[one["label"], percent(one["score"])] for one in (first, second)]
    says = "Same answer" if first["label"] == second["label"] else "Different answers"
    assert tab.texts("#agreement") == [says]
    script = f"Array.from(document.querySelectorAll('{CARDS}'), (one) => one.getBoundingClientRect().top)"
    tops = tab.value(script)
    assert tops[0] == tops[1]
    tab.size(360, 780)
    tops = tab.value(script)
    assert tops[0] < tops[1], "a phone shows them below each other"
    assert tab.value("document.documentElement.scrollWidth") == 360
    assert tab.value("location.search") == "?model=one&other=two"


def test_a_choice_shows_the_texts_of_its_choices(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    tab.choose("#model", "choice")
    texts = ["犬", HOSTILE, "試合"]
    tab.fill("[name=text]", JAPANESE)
    for place, text in enumerate(texts, start=1):
        tab.fill(f".choice:nth-of-type({place}) input", text)
    tab.press("Enter")
    answered(tab)
    prediction = predict("choice", text=JAPANESE, choices=texts)
    pairs = sorted(zip(prediction["scores"], texts, strict=True), key=lambda pair: -pair[0])
    assert bars(tab) == [[text, percent(score)] for score, text in pairs]


def test_a_pair_and_a_number(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    tab.choose("#model", "regression")
    tab.choose("#other", "pair")
    tab.fill("[name=text]", JAPANESE)
    tab.fill("[name=text_pair]", ENGLISH)
    tab.press("Enter", "ctrl")
    answered(tab, 2)
    row = {"text": JAPANESE, "text_pair": ENGLISH}
    assert tab.texts(".number") == [f"{predict('regression', **row)['value']:.3f}"]
    assert bars(tab)[0][0] == predict("pair", **row)["label"]
    assert not tab.texts("#agreement")[0], "their answers are of different kinds"


def test_a_field_may_be_empty_but_not_all(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    tab.choose("#model", "regression")
    tab.click("#predict")
    assert tab.texts(CARDS) == []
    assert not tab.value("document.getElementById('form').checkValidity()")
    tab.fill("[name=text]", JAPANESE)
    tab.click("#predict")
    answered(tab)
    assert tab.texts(".number") == [f"{predict('regression', text=JAPANESE, text_pair='')['value']:.3f}"]


def questions(predict: Callable[..., dict[str, Any]]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Rows and their predictions: with an answer and without one, and with an emoji in the span and without one."""
    seen = set()
    for question in ("犬", "何が好き", "公開日は", "who"):
        for context in ("😀 犬", "犬😀", "😀映画。😀", "試合 😀", EMOJI, "😀\n" + EMOJI):
            row = {"question": question, "context": context}
            prediction = predict("span", **row)
            case = (bool(prediction["answer"]), "😀" in prediction["best"])
            if prediction["start"] > 0 and case not in seen:
                seen.add(case)
                yield row, prediction
    assert len(seen) >= 3


def test_an_answer_is_marked_in_its_context(tab: Tab, predict: Callable[..., dict[str, Any]]) -> None:
    tab.choose("#model", "span")
    for row, prediction in questions(predict):
        tab.fill("[name=question]", row["question"])
        tab.fill("[name=context]", row["context"])
        tab.press("Enter")
        assert tab.texts(CARDS) == [], "in a context, Enter starts a line"
        tab.fill("[name=context]", row["context"])
        tab.press("Enter", "ctrl")
        answered(tab)
        assert tab.texts(".answer strong") == [prediction["answer"] or "No answer"]
        assert tab.texts(".answer span") == [percent(prediction["score"])]
        assert tab.value("document.querySelector('mark').textContent") == prediction["best"]
        before = tab.value("document.querySelector('mark').previousSibling.textContent")
        assert before == row["context"][: prediction["start"]], "the service counts characters, not UTF-16 units"
        assert tab.value("document.querySelector('mark').className") == ("span" if prediction["answer"] else "unlikely")
        tab.choose("#model", "one")
        tab.choose("#model", "span")


@pytest.mark.parametrize("text", [EMOJI, HOSTILE, "no entities?"])
def test_entities_are_marked_and_named(tab: Tab, predict: Callable[..., dict[str, Any]], text: str) -> None:
    tab.choose("#model", "tagging")
    tab.fill("[name=text]", text)
    tab.press("Enter")
    answered(tab)
    prediction = predict("tagging", text=text)
    entities, scores = prediction["entities"], prediction["entity_scores"]
    assert text != EMOJI or len(entities) > 1
    of_marks = "Array.from(document.querySelectorAll('mark'), (mark) => %s)"
    marks = tab.value(of_marks % "[mark.firstChild.data, mark.lastChild.innerText]")
    assert marks == [
        [text[one["start"] : one["end"]], f"{one['label']} {percent(score)}"]
        for one, score in zip(entities, scores, strict=True)
    ]
    whole = "Array.from(document.querySelector('.passage').childNodes, (n) => (n.firstChild || n).data).join('')"
    assert tab.value(whole) == text
    colours = tab.value(of_marks % "getComputedStyle(mark).backgroundColor")
    assert len(set(colours)) == len({one["label"] for one in entities})


@pytest.mark.parametrize("language", ["ja", "en"])
@pytest.mark.parametrize("model", ["one", "span", "tagging", "choice", "regression"])
def test_an_example_of_each_kind_can_be_sent(tab: Tab, language: str, model: str) -> None:
    tab.choose("#model", model)
    tab.click(f"[data-language={language}]")
    tab.click("#predict")
    answered(tab)
    assert tab.texts(".problem") == []


def test_the_address_names_the_models_and_no_text(tab: Tab, address: str) -> None:
    tab.open(f"{address}/?model=two&other=one")
    tab.until("!document.getElementById('form').hidden")
    assert tab.value("[document.getElementById('model').value, document.getElementById('other').value]") == [
        "two",
        "one",
    ]
    tab.open(f"{address}/?model=gone")
    tab.until("document.getElementById('model').value === 'one'")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of an encoder, and the address of a service with it."""
    folder, models = tiny.encoder(tmp_path_factory.mktemp("encoder") / "mini"), Catalogue()
    models.serve({"mini": Source("mini", folder=folder)})
    with served.serving(models) as address:
        yield folder, address


def test_words_for_masks_and_the_vector_of_a_text(encoder: tuple[Path, str], open_tab: Callable[[], Tab]) -> None:
    folder, address = encoder
    page, text = open_tab(), "私は[MASK]が[MASK]。"
    page.open(f"{address}/?model=mini.fill_mask")
    page.until("!document.getElementById('form').hidden")
    page.fill("[name=text]", text)
    page.press("Enter")
    answered(page)
    guesses = MaskFiller.load(folder).predict(pa.table({"text": [text]})).to_pylist()[0]["guesses"]
    assert page.texts("h3") == ["[MASK] 1", "[MASK] 2"]
    firsts = [[first["piece"], percent(first["score"])] for first, *_ in guesses]
    assert [line for line in bars(page) if line in firsts] == firsts
    page.choose("#model", "mini")
    answered(page)
    assert page.texts(".answer strong") == ["32 numbers"]
    assert page.problems(address) == []
