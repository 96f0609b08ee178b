"""The files of the service's pages, how they look, and the page at /docs."""

import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.serving import docs_page, pages
from tests.support import served, tiny
from tests.support.browser import Tab
from tests.support.places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = {"one": tiny.classifier(tmp_path_factory.mktemp("models") / "one")}
    with served.serving(served.catalogue(models)) as address:
        yield address


@pytest.fixture
def tab(address: str, open_tab: Callable[[], Tab]) -> Iterator[Tab]:
    page = open_tab()
    page.open(address)
    yield page
    assert page.problems(address) == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_contrast_is_enough_in_the_light_and_in_the_dark(tab: Tab, dark: bool) -> None:
    media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    tab.send("Emulation.setEmulatedMedia", features=media)
    style = "getComputedStyle(document.documentElement).getPropertyValue('--%s')"
    ink, quiet, accent, wrong = (luminance(tab.value(style % name)) for name in ("ink", "quiet", "accent", "wrong"))
    for ground in ("paper", "card"):
        behind = luminance(tab.value(style % ground))
        assert min(contrast(ink, behind), contrast(quiet, behind), contrast(accent, behind)) >= 4.5
    assert contrast(wrong, luminance(tab.value(style % "wrong-paper"))) >= 4.5
    assert contrast(luminance(tab.value(style % "on-accent")), accent) >= 4.5
    assert contrast(luminance(tab.value(style % "edge")), luminance(tab.value(style % "card"))) >= 3


def luminance(colour: str) -> float:
    """The relative luminance of `#rgb` or `#rrggbb` (WCAG 2)."""
    digits = colour.strip().removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_the_documentation_sends_requests(tab: Tab, address: str) -> None:
    tab.open(f"{address}/docs")
    tab.until("document.querySelectorAll('.card').length > 5")
    bodies = tab.value("Array.from(document.querySelectorAll('textarea')).map((area) => area.value)")
    assert any("dataframe_split" in body for body in bodies)
    assert "null" not in bodies, "every form shows a body that can be sent"
    card = "Array.from(document.querySelectorAll('.card')).find((card) => card.innerText.startsWith('GET%s'))"
    tab.value(f"({card % '/models/{name}'}).querySelector('input').focus()")
    tab.insert("one")
    tab.press("Enter")
    tab.until("Array.from(document.querySelectorAll('pre')).some((pre) => pre.innerText.startsWith('200'))")
    assert any('"name":"one"' in text for text in tab.texts("pre"))
    tab.size(360, 780)
    assert tab.value("document.documentElement.scrollWidth") == 360


def test_the_files_have_their_types_and_the_policy(address: str) -> None:
    for path, kind in {"": "text/html", **{f"page/{name}": "" for name in pages.names()}, "docs": "text/html"}.items():
        with urllib.request.urlopen(f"{address}/{path}", timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith(kind or pages.TYPES[Path(path).suffix])
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
    for path in ("page/none.js", "page/..%2fpages.py", "page/%2e%2e%2fpages.py", "page/__init__.py"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/{path}", timeout=60)
    for text in (docs_page.HTML, *(pages.file(name).body.decode() for name in pages.names() if name != "icon.svg")):
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text


def test_the_files_are_installed_with_the_code() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    (pattern,) = packages["package-data"]["pipelines.serving"]
    files = {path for path in (ROOT / "pipelines").rglob("*") if path.suffix in pages.TYPES}
    assert files == set((ROOT / "pipelines/serving").glob(pattern))
    assert {path.name for path in files} == set(pages.names())
