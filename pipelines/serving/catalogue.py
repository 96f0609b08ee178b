"""The models of the service, by name: each follows its alias, and is replaced while requests are answered."""

import re
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.progress import say
from pipelines.serving import served_model
from pipelines.serving.served_model import ServedModel
from pipelines.tracking import registry

FOLLOW_SECONDS = 10  # between two checks of the aliases
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Source(NamedTuple):
    """A model to serve: `NAME`, `NAME@ALIAS` or `NAME@NUMBER` in the registry, or `NAME=FOLDER` on this machine."""

    model: str  # the registered name; of a folder, the name in the service
    alias: str = registry.CHAMPION
    runtime: str = ""
    folder: Path | None = None

    @classmethod
    def parse(cls, text: str, runtime: str = "") -> "Source":
        name, _, folder = text.partition("=")
        if folder:
            if not NAME.fullmatch(name):
                raise UsageError(f"{text}: a name has letters, digits, _, - and . only")
            return cls(name, runtime=runtime, folder=Path(folder))
        name, _, alias = text.partition("@")
        return cls(name, alias or registry.CHAMPION, runtime)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return f"{self.model}={self.folder.resolve()}" if self.folder else f"{self.model}@{self.alias}"

    def version(self) -> registry.Version:
        """The version that is to be served now, 0 for a folder. Raises InputError if there is none."""
        if self.folder:
            if not self.folder.is_dir():
                raise InputError(f"{self.folder}: no such folder")
            return registry.Version(self.model, 0, {})
        if self.alias.isdigit():
            return registry.version(self.model, int(self.alias))
        return registry.get(self.model, self.alias)


def sources(texts: Iterable[str], runtime: str = "") -> dict[str, Source]:
    """The sources by their names in the service: a folder's NAME, or the whole text. Raises UsageError for a repeat."""
    by_name: dict[str, Source] = {}
    for text in texts:
        source = Source.parse(text, runtime)
        name = source.model if source.folder else text
        if by_name.setdefault(name, source) != source:
            raise UsageError(f"{text}: another model has the name {name}")
    return by_name


class Catalogue:
    """The served models. The first one answers requests that name none."""

    def __init__(self, changeable: bool = True) -> None:
        self.changeable = changeable  # whether `add` and `remove` may be called; replicas would differ after it
        self._pool = ThreadPoolExecutor(served_model.workers(), thread_name_prefix="model")
        self._models: dict[str, ServedModel] = {}  # replaced as a whole, never changed
        self._sources: dict[str, Source] = {}
        self._logged: dict[str, str] = {}  # name -> the last logged reason why its version could not be opened
        self._lock = threading.RLock()  # held while models are opened, and while the catalogue changes
        self._stop = threading.Event()
        # a thread, as a registry may take minutes to answer, and Ray Serve kills a replica that fails its health check
        self._follower = threading.Thread(target=self._keep_following, daemon=True)

    def serve(self, sources: dict[str, Source]) -> None:
        """Serve exactly these models, and follow their aliases. A model with an unchanged version is kept.

        Raises InputError if one cannot be opened; the models are then as before.
        """
        with self._lock:
            opened: dict[str, ServedModel] = {}
            for name, source in sources.items():
                models = self._opened(name, source)
                if twice := opened.keys() & models.keys():
                    raise InputError(f"two models have the name {min(twice)}; choose another")
                opened |= models
            self._sources, self._models = dict(sources), opened
        if not self._follower.is_alive():
            self._follower.start()

    def add(self, name: str, source: Source) -> None:
        """Serve one more model, or replace the one with this name. Raises InputError if it cannot be opened."""
        self._require_changeable()
        with self._lock:
            self.serve(self._sources | {name: source})

    def remove(self, name: str) -> None:
        """Serve a model no longer; requests that it has begun are answered. Raises UnknownModelError."""
        self._require_changeable()
        with self._lock:
            if name not in self._sources:
                raise UnknownModelError(choices("model", name[:60], self._sources))
            self.serve({other: source for other, source in self._sources.items() if other != name})

    def _require_changeable(self) -> None:
        if not self.changeable:
            raise InputError("this service runs as replicas; change `models` in its config instead")

    def close(self) -> None:
        """Stop to follow the aliases, and end the threads after their last batch."""
        self._stop.set()
        self._pool.shutdown(wait=False)

    def __getitem__(self, name: str) -> ServedModel:
        """The model with this name. Raises UnknownModelError."""
        try:
            return self._models[name]
        except KeyError:
            raise UnknownModelError(choices("model", name[:60], self._models)) from None

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(list(self._models.values()))

    def first(self) -> ServedModel:
        """The model that answers requests that name none."""
        for model in self._models.values():
            return model
        raise UnknownModelError("no model is served")

    def follow(self) -> None:
        """Switch each model to the version that has its alias now.

        If the registry does not answer, or the version does not open, the current model stays; the log says so once.
        """
        for name, source in list(self._sources.items()):
            try:
                with self._lock:
                    if self._sources.get(name) == source:
                        self._models = self._models | self._opened(name, source)
                self._logged.pop(name, None)
            except Exception as error:  # of any type: the current version keeps answering
                current = self._models.get(name)  # none if it was removed meanwhile
                if current and self._logged.get(name) != one_line(error):
                    say(f"{current.version} stays in use: {one_line(error)}")
                self._logged[name] = one_line(error)

    def _keep_following(self) -> None:
        while not self._stop.wait(FOLLOW_SECONDS):
            self.follow()

    def _opened(self, name: str, source: Source) -> dict[str, ServedModel]:
        """The models of this source by name: those that are served already, if nothing but its alias has changed."""
        version, current, before = source.version(), self._models.get(name), self._sources.get(name)
        same = before and (before.folder, before.runtime) == (source.folder, source.runtime)
        if current and same and current.version == version:
            names = (name, served_model.filler(name)) if source.folder else (name,)
            return {each: self._models[each] for each in names if each in self._models}
        start = time.monotonic()
        if source.folder:
            models = ServedModel.open_folder(name, source.folder, source.runtime, self._pool)
        else:
            models = [ServedModel.open(name, version, source.runtime, self._pool)]
        say(
            f"{version} opened in {time.monotonic() - start:.1f} s as {', '.join(model.name for model in models)}; "
            f"a row's outputs differ by {models[0].row_difference:.1g} beside other rows"
        )
        return {model.name: model for model in models}


class UnknownModelError(InputError):
    """No model with this name is served."""
