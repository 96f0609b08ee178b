"""The page at / when something is odd: hostile texts, errors, requests that cross, a version that changes."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pipelines.serving.catalogue import Catalogue
from pipelines.serving.keys import Keys
from pipelines.tracking import registry
from tests.support import compressed, served, tiny
from tests.support.browser import Tab

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=\"document.title='changed'\"> <b>犬</b>"
CARDS = "#results .card"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    place = tmp_path_factory.mktemp("models")
    span, tagging = (compressed.teacher("bert", kind, place / kind) for kind in ("span", "tagging"))
    return served.catalogue({"one": tiny.classifier(place / "one"), "span": span, "tagging": tagging})


@pytest.fixture(scope="module")
def address(models: Catalogue) -> Iterator[str]:
    with served.serving(models) as address:
        yield address


def answered(tab: Tab) -> None:
    tab.until(f"document.querySelectorAll('{CARDS}').length === 1")


def test_a_hostile_text_stays_a_text(tab: Tab) -> None:
    tab.choose("#model", "span")
    row = {"question": HOSTILE, "context": HOSTILE * 3}
    tab.fill("[name=question]", row["question"])
    tab.fill("[name=context]", row["context"])
    tab.click("#predict")
    answered(tab)
    assert tab.value("document.querySelector('.passage').textContent") == row["context"]
    assert tab.value("document.images.length") == 0
    assert tab.value("document.title") == "bertline"
    script = "(() => { try { document.body.innerHTML = '<i></i>'; return '' } catch (error) { return error.name } })()"
    assert tab.value(script) == "TypeError", "the policy lets no script make HTML of a text"
    tab.messages = [m for m in tab.messages if m["method"] != "Log.entryAdded"]  # the browser reports that breach


def test_errors_are_the_sentences_of_the_service(tab: Tab) -> None:
    tab.fill("[name=text]", "犬" * 20_001)
    tab.press("Enter")
    answered(tab)
    assert tab.texts(".problem") == ["rows.0.text: String should have at most 20000 characters"]
    assert "at most 20000" in tab.value("document.querySelector('[aria-live]').textContent")
    tab.fill("[name=text]", "犬")
    tab.press("Enter")
    tab.until("document.querySelectorAll('.bars').length === 1")
    assert tab.texts(".problem") == []
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.send("Network.emulateNetworkConditions", offline=True, **offline)
    tab.press("Enter")
    tab.until("document.querySelector('.problem')")
    assert tab.texts(".problem") == ["The service does not answer. Check that it runs, then try again."]


def test_an_empty_input_is_not_sent(tab: Tab) -> None:
    tab.click("#predict")
    assert tab.value("document.activeElement.name") == "text"
    assert tab.texts(CARDS) == []


def test_a_new_version_is_named_with_its_answer(tab: Tab, models: Catalogue) -> None:
    before = models._models
    second = replace(before["tagging"], name="one", version=registry.Version("one", 2, {}))
    tab.fill("[name=text]", "a new phone")
    models._models = before | {"one": second}
    try:
        tab.press("Enter")
        tab.until("document.querySelector('#model option').innerText === 'one · v2'")
    finally:
        models._models = before
    assert tab.texts(f"{CARDS} h2") == ["one version 2"]
    assert len(tab.texts(".passage")) == 1, "the new version is of another kind"
    assert tab.value("document.activeElement.name") == "text"


def test_an_enter_of_a_japanese_conversion_sends_nothing(tab: Tab) -> None:
    tab.fill("[name=text]", "いぬ")
    event = "new KeyboardEvent('keydown', {key: 'Enter', isComposing: %s, bubbles: true, cancelable: true})"
    send = "document.querySelector('[name=text]').dispatchEvent(%s)"
    assert tab.value(send % (event % "true")) is True
    assert tab.value("document.getElementById('results').ariaBusy") is None
    assert tab.value(send % (event % "false")) is False
    answered(tab)


def test_a_newer_row_replaces_one_that_is_still_sent(tab: Tab) -> None:
    slow = {"offline": False, "latency": 500, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.send("Network.emulateNetworkConditions", **slow)
    tab.fill("[name=text]", "犬")
    tab.press("Enter")
    assert tab.value("document.getElementById('results').ariaBusy") == "true"
    tab.choose("#model", "tagging")
    tab.press("Enter")
    answered(tab)
    assert tab.texts(".problem") == []
    assert tab.texts(f"{CARDS} h2") == ["tagging version 1"]
    assert tab.value("document.getElementById('results').ariaBusy") is None


def test_a_service_with_keys_asks_for_one(models: Catalogue, open_tab: Callable[[], Tab]) -> None:
    keys = Keys.parse(["page a-key-of-the-page"], "keys")
    with served.serving(models, keys) as address:
        page = open_tab()
        page.open(address)
        page.until("!document.getElementById('access').hidden")
        assert page.texts(".problem") == []
        page.fill("#key", "another-key-of-16")
        page.press("Enter")
        page.until("document.querySelector('.problem')")
        assert page.texts(".problem") == ["no valid API key; send it as `Authorization: Bearer KEY`"]
        page.fill("#key", "a-key-of-the-page")
        page.press("Enter")
        page.until("document.activeElement.name === 'text'")
        page.insert("犬")
        page.press("Enter")
        answered(page)
        assert page.texts(".problem") == []
        assert page.value("document.getElementById('access').hidden")
        assert page.value("location.href") == f"{address}/?model=one"
        assert page.value("localStorage.length + sessionStorage.length") == 0, "only the page has the key"
        page.open(f"{address}/docs")
        page.until("document.querySelectorAll('.card').length > 5")
        card = "Array.from(document.querySelectorAll('.card')).find((one) => one.innerText.startsWith('GET/models\\n'))"
        page.value(f"{card}.querySelector('button').click()")
        page.until("!document.getElementById('access').hidden")
        page.fill("#key", "a-key-of-the-page")
        page.press("Enter")
        page.value(f"{card}.querySelector('button').click()")
        page.until(f"{card}.querySelector('pre').innerText.startsWith('200')")
        assert page.problems(address) == []
