"""The models of the service, by name: each follows its alias, and is replaced while requests are answered."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pipelines.core import provenance
from pipelines.core.errors import InputError, choices, one_line
from pipelines.core.progress import say
from pipelines.inference.receipts import Signer
from pipelines.serving import broken_cascades, certification, served_model, side_versions
from pipelines.serving.certification import Conditions, RefusedError
from pipelines.serving.change_queue import ChangeQueue
from pipelines.serving.disagreements import Disagreements
from pipelines.serving.model_sources import Source
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.refused_versions import RefusedVersion, RefusedVersions
from pipelines.serving.request_store import RequestStore
from pipelines.serving.served_model import ServedModel
from pipelines.serving.side_versions import Canary, Shadow
from pipelines.serving.trial import Trial
from pipelines.tracking import registry
from pipelines.tracking.registry import Version

FOLLOW_SECONDS = 10  # between two checks of the aliases


class Catalogue:
    """The served models. The first one answers requests that name none."""

    def __init__(self, changeable: bool = True, conditions: Conditions | None = None) -> None:
        self.conditions = conditions or Conditions()  # of new versions
        self.changeable = changeable  # whether `add` and `remove` may be called; replicas would differ after it
        self._threads = ModelThreads()
        self._models: dict[str, ServedModel] = {}  # replaced as a whole, never changed
        self._sources: dict[str, Source] = {}
        self._logged: dict[str, str] = {}  # name -> the last logged reason why its version could not be opened
        self._refused: dict[str, RefusedVersion] = {}  # name -> the version that does not answer
        self._refusals = RefusedVersions()
        self.swaps: Counter[tuple[str, str]] = Counter()  # (name, `answers`, `refused` or `went_back`)
        self.ended: dict[str, RefusedVersion] = {}  # name -> the last canary that ended by itself
        self.signer: Signer | None = None  # of a receipt for each answer of the plain protocol
        self.disagreements: Disagreements | None = None  # takes what shadows answer otherwise; else it is only counted
        self.store: RequestStore | None = None  # takes the predicted rows; set before the application is made
        self._lock = threading.RLock()  # held while models are opened, and while the catalogue changes
        self._swap = threading.Lock()  # held while `_models` is replaced, which the event loop may wait for
        self._stop = threading.Event()
        self.changes = ChangeQueue()  # by requests
        # a thread, as a registry may take minutes to answer, and Ray Serve kills a replica that fails its health check
        self._follower = threading.Thread(target=self._keep_following, daemon=True)

    def serve(self, sources: dict[str, Source], opening: str = "") -> None:
        """Serve exactly these models, and follow their aliases.

        A model with an unchanged source is kept, unless its name is `opening`: then its alias is read again.
        Raises InputError if one cannot be opened; the models are then as before.
        """
        with self._lock:
            opened: dict[str, ServedModel] = {}
            for name, source in sources.items():
                same = self._sources.get(name) == source and name != opening
                models = (self._of(name, source) if same else {}) or self._open_if_changed(name, source)
                if twice := opened.keys() & models.keys():
                    raise InputError(f"two models have the name {min(twice)}; choose another")
                opened |= models
            self._sources = dict(sources)
            self._replace(opened, keep=False)
        if not self._follower.is_alive():
            self._follower.start()

    def add(self, name: str, source: Source) -> None:
        """Serve one more model, or replace the one with this name; a version that was refused is tried again.

        Raises InputError if it cannot be opened.
        """
        self.require_changeable()
        with self._lock:
            if name in self._models and name not in self._sources:  # it fills the masks of a folder
                raise InputError(f"two models would have the name {name}; choose another")
            if not source.folder:
                self._refusals.forget(source.version())
            self.serve(self._sources | {name: source}, opening=name)
            self._refused.pop(name, None)

    def remove(self, name: str) -> None:
        """Serve a model no longer; requests that it has begun are answered. Raises UnknownModelError."""
        self.require_changeable()
        with self._lock:
            if name not in self._sources:
                raise UnknownModelError(choices("model", name[:60], self._sources))
            self.serve({other: source for other, source in self._sources.items() if other != name})
            self._refused.pop(name, None)

    def require_changeable(self) -> None:
        """Raise InputError if this catalogue is that of a replica: a request would change one of several."""
        if not self.changeable:
            raise InputError("this service runs as replicas; change its config instead")

    def close(self) -> None:
        """Stop to follow the aliases, and end the threads after their last batch."""
        self._stop.set()
        self._threads.shutdown(wait=False)
        self.changes.shutdown(wait=False, cancel_futures=True)
        if self.disagreements:
            self.disagreements.close()
        if self.store:
            self.store.close()

    def open_beside(self, name: str, source: Source) -> tuple[ServedModel, Callable[[str, bool], None]]:
        """Open a version to stand beside the one that answers as `name`, as carefully as one that replaces it.

        Returns the version, and a function of cause and `lasting` (RefusedError) that refuses it if it fails later.
        Raises InputError if it does not open, is the one that answers, or takes other rows.
        """
        with self._lock:
            current = self[name]
            if source.folder or not current.version.version:
                raise InputError(f"{name}: a folder has no other versions; register the model")
            version = source.version()
            if version == current.version:
                raise InputError(f"{version} answers already")
            self._refusals.forget(version)
            folder = registry.folder(version, source.runtime)
            digest = provenance.content_digest(folder)
            model = certification.certified(
                name, version, folder, source.runtime, self._threads, current, self.conditions
            )
            if not model.reads_rows_of(current):
                if model.task.kind == current.task.kind:
                    raise InputError(f"{version} takes another number of choices than {current.version}")
                raise InputError(f"{version} is of kind {model.task.kind}, {current.version} of {current.task.kind}")

        def refuse(cause: str, lasting: bool) -> None:
            self._refusals.add(version, source.runtime, folder, digest, RefusedError(f"it {cause}", lasting))

        return replace(model, digest=digest), refuse

    def step_back(self, name: str, number: int, cause: str) -> None:
        """Let version `number` answer in place of the current one, which is refused. Raises InputError if it cannot."""
        with self._lock:
            current, source = self[name], self._sources[name]
            former, _ = self.open_beside(name, source._replace(alias=str(number)))
            folder = registry.folder(current.version, source.runtime)
            self._refusals.add(current.version, source.runtime, folder, current.digest, RefusedError(f"it {cause}"))
            self._take_back(name, current, former, cause)

    def change(self, name: str, **beside: Canary | Shadow | None) -> None:
        """Set the canary or the shadow of the model with this name; each request sees the change or does not."""
        with self._swap:
            if current := self._models.get(name):
                self._models = self._models | {name: replace(current, **beside)}  # type: ignore[arg-type]

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

    def refused(self, name: str) -> RefusedVersion | None:
        """The version that the alias of this model names and that gets no request; None if it answers."""
        return self._refused.get(name)

    def source(self, name: str) -> str:
        """The source of the model with this name, such as `headlines@champion`; empty for a folder."""
        source = self._sources.get(name)
        return str(source) if source and not source.folder else ""

    def follow(self, only: str = "") -> None:
        """Switch each model, or `only` the one with this name, to the version that has its alias now.

        If the registry does not answer, or the version is refused, the current model stays; the log says so once.
        """
        for name, source in list(self._sources.items()):
            if only not in ("", name):
                continue
            try:
                with self._lock:
                    if self._sources.get(name) == source:
                        self._replace(self._open_if_changed(name, source))
                self._logged.pop(name, None)
                self._refused.pop(name, None)
            except Exception as error:  # of any type: the current version keeps answering
                current = self._models.get(name)  # none if it was removed meanwhile
                if current and self._logged.get(name) != one_line(error):
                    say(f"{current.version} stays in use: {one_line(error)}")
                self._logged[name] = one_line(error)

    def _keep_following(self) -> None:
        while not self._stop.wait(FOLLOW_SECONDS):
            try:
                self.follow()
                broken_cascades.settle(self)
            except Exception as error:  # of any type: the thread goes on, or no alias would be followed any more
                say(f"the aliases were not followed: {one_line(error)}; they are looked at again")

    def _of(self, name: str, source: Source) -> dict[str, ServedModel]:
        """The models that are served for the source with this name: one, or the two of an encoder's folder."""
        fills = served_model.filler(name)
        names = (name, fills) if source.folder and fills not in self._sources else (name,)
        return {served: self._models[served] for served in names if served in self._models}

    def _replace(self, models: dict[str, ServedModel], keep: bool = True) -> None:
        """Let these models answer from now on, and others only if `keep`. Each request sees all of a change, or none.

        A version that has failed its trial since `models` were read stays replaced by the former one.
        """
        with self._swap:
            new = {name: self._latest(name, model) for name, model in models.items()}
            self._models = self._models | new if keep else new

    def _latest(self, name: str, model: ServedModel) -> ServedModel:
        """The model to answer as `name` when `model` was read or opened, while the catalogue could change."""
        current = self._models.get(name)
        if not current:
            return model
        if current.batcher is model.batcher or (model.trial and model.trial.failed):
            return current
        return replace(model, **side_versions.kept(current, model))

    def _open_if_changed(self, name: str, source: Source) -> dict[str, ServedModel]:
        """The models of a source: those that answer, whose trial may end, or a new version's, which count as a swap."""
        version, current, before = source.version(), self._models.get(name), self._sources.get(name)
        same = before and (before.folder, before.runtime) == (source.folder, source.runtime)
        if current and same and current.version == version:
            if current.trial:
                current.trial.end_if_over()
            return self._of(name, source)
        start = time.monotonic()
        if source.folder:
            models = ServedModel.open_folder(name, source.folder, source.runtime, self._threads)
        else:
            former = current if current and current.version.name == version.name else None
            models = [self._certified(name, version, source, former)]
            if current:
                self.swaps[name, "answers"] += 1
        say(
            f"{version} opened in {time.monotonic() - start:.1f} s as {', '.join(model.name for model in models)}; "
            f"a row's outputs differ by {models[0].row_difference:.1g} beside other rows"
        )
        return {model.name: model for model in models}

    def _certified(self, name: str, version: Version, source: Source, current: ServedModel | None) -> ServedModel:
        """Open a version that may answer, on trial if it replaces `current`, another version of the same model.

        Raises InputError, and notes the reason if the source is served.
        """
        folder, digest, runtime = Path(), "", source.runtime
        try:
            self._refusals.require_new(version, runtime)
            folder = registry.folder(version, runtime)
            digest = provenance.content_digest(folder)
            self._refusals.require_new_files(version, runtime, digest)
            model = certification.certified(name, version, folder, runtime, self._threads, current, self.conditions)
        except InputError as error:
            if isinstance(error, RefusedError) and digest:
                self._refusals.add(version, runtime, folder, digest, error)
            refused = RefusedVersion(version.version, one_line(error))
            if self._sources.get(name) == source and self._refused.get(name) != refused:  # it is looked at repeatedly
                self.swaps[name, "refused"] += 1
                self._refused[name] = refused
            raise InputError(str(error) if str(version) in str(error) else f"{version} is refused: {error}") from error

        def go_back(trial: Trial, cause: str) -> None:
            self._refusals.add(version, runtime, folder, digest, RefusedError(f"it {cause}"))
            if before := trial.former_or_end():
                self._take_back(name, model, before, cause)

        former = current and model.reads_rows_of(current) and replace(current, trial=None, canary=None, shadow=None)
        return replace(model, digest=digest, trial=Trial(former, go_back) if former else None)

    def _take_back(self, name: str, current: ServedModel, former: ServedModel, cause: str) -> None:
        """Let `former` answer again in place of `current`, if that still answers."""
        version = current.version
        with self._swap:
            answering = self._models.get(name)
            if not answering or answering.batcher is not current.batcher:
                return
            self._models = self._models | {name: replace(former, **side_versions.kept(answering, former))}
        self.swaps[name, "went_back"] += 1
        self._refused[name] = RefusedVersion(version.version, f"it {cause}")
        self._logged[name] = f"{version} is refused: it {cause}"
        say(f"{former.version} answers again as {name}: {version} {cause}")


class UnknownModelError(InputError):
    """No model with this name is served."""
