"""The models of the service, by name: each follows its alias, and is replaced while requests are answered."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pipelines.core.errors import InputError, choices, one_line
from pipelines.core.progress import say
from pipelines.serving import served_model
from pipelines.serving.served_model import ServedModel
from pipelines.tracking import registry

FOLLOW_SECONDS = 10  # between two checks of the aliases


class Source(NamedTuple):
    """A registered model and which of its versions: `NAME`, `NAME@ALIAS` or `NAME@NUMBER`."""

    model: str  # the registered name
    alias: str = registry.CHAMPION
    runtime: str = ""

    @classmethod
    def parse(cls, text: str, runtime: str = "") -> "Source":
        name, _, alias = text.partition("@")
        return cls(name, alias or registry.CHAMPION, runtime)

    def version(self) -> registry.Version:
        """The version that is to be served now. Raises InputError if there is none."""
        if self.alias.isdigit():
            return registry.version(self.model, int(self.alias))
        return registry.get(self.model, self.alias)


class Catalogue:
    """The served models. The first one answers requests that name none."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(served_model.workers(), thread_name_prefix="model")
        self._models: dict[str, ServedModel] = {}  # replaced as a whole, never changed
        self._sources: dict[str, Source] = {}
        self._logged: dict[str, str] = {}  # name -> the last logged reason why its version could not be opened
        self._lock = threading.Lock()  # held while models are opened
        self._stop = threading.Event()
        # a thread, as a registry may take minutes to answer, and Ray Serve kills a replica that fails its health check
        self._follower = threading.Thread(target=self._keep_following, daemon=True)

    def serve(self, sources: dict[str, Source]) -> None:
        """Serve exactly these models, and follow their aliases. A model with an unchanged version is kept.

        Raises InputError if one cannot be opened; the models are then as before.
        """
        with self._lock:
            opened = {name: self._opened(name, source) for name, source in sources.items()}
            self._sources, self._models = dict(sources), opened
        if not self._follower.is_alive():
            self._follower.start()

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
        return next(iter(self._models.values()))

    def follow(self) -> None:
        """Switch each model to the version that has its alias now.

        If the registry does not answer, or the version does not open, the current model stays; the log says so once.
        """
        for name, source in list(self._sources.items()):
            try:
                with self._lock:
                    if self._sources.get(name) == source:
                        self._models = self._models | {name: self._opened(name, source)}
                self._logged.pop(name, None)
            except Exception as error:  # of any type: the current version keeps answering
                if self._logged.get(name) != (why := one_line(error)):
                    say(f"{self._models[name].version} stays in use: {why}")
                self._logged[name] = why

    def _keep_following(self) -> None:
        while not self._stop.wait(FOLLOW_SECONDS):
            self.follow()

    def _opened(self, name: str, source: Source) -> ServedModel:
        """The model of this source: the one that is served already, if its version and runtime are the same."""
        version, current = source.version(), self._models.get(name)
        if current and current.version == version and self._sources[name].runtime == source.runtime:
            return current
        start = time.monotonic()
        model = ServedModel.open(name, version, source.runtime, self._pool)
        say(
            f"{version} opened in {time.monotonic() - start:.1f} s as {name}; "
            f"a row's logits differ by {model.row_difference:.1g} beside other rows"
        )
        return model


class UnknownModelError(InputError):
    """No model with this name is served."""
