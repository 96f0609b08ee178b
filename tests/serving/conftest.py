"""The champion that the tests of serving share."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import mlflow
import pytest

from pipelines.tracking import registry, store
from tests.conftest import SETTINGS
from tests.support import browser
from tests.support import champion as champion_of_tests


@pytest.fixture(scope="session")
def champion(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, registry.Version]:
    """A folder with a store that has a champion."""
    place = tmp_path_factory.mktemp("champion")
    with pytest.MonkeyPatch.context() as patch:
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        patch.chdir(place)
        found = champion_of_tests.registered(place)
    mlflow.set_tracking_uri(None)
    return place, found


@pytest.fixture
def version(champion: tuple[Path, registry.Version], checkout: Path) -> Iterator[registry.Version]:
    """The champion in a copy of that store. The files of the model are shared, as no test writes them."""
    place, found = champion
    shutil.copytree(place / store.HOME, checkout / store.HOME, ignore=shutil.ignore_patterns("artifacts"))
    (checkout / store.HOME / "artifacts").symlink_to(place / store.HOME / "artifacts")
    yield found
    mlflow.set_tracking_uri(None)


@pytest.fixture(scope="session")
def open_tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], browser.Tab]]:
    """A function that opens a tab of Chromium; skips the test on a machine without it."""
    if not browser.PROGRAM:
        pytest.skip("Chromium is not installed on this machine")
    with browser.browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def tab(address: str, open_tab: Callable[[], browser.Tab]) -> Iterator[browser.Tab]:
    """The page with its models; at the end the browser has reported no error, and loaded nothing from elsewhere."""
    page = open_tab()
    page.open(address)
    page.until("!document.getElementById('form').hidden")
    yield page
    assert page.problems(address) == []
