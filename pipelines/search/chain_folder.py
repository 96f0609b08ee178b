"""The folder of a search for a chain: stages make the chains' models and exports in it, with params of its own."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.core import params, paths, provenance, yaml_file
from pipelines.entries.evaluate import Evaluate
from pipelines.graph import code_manifest, lockfile
from pipelines.graph.stage_runner import StageRunner
from pipelines.search import chains
from pipelines.search.chains import Chain

STATE = Path("state/compressing")
LONGEST = 100  # characters of an entry's name
CLASHING = {"compress": ("import_weights", "pretrain", "finetune", "baseline"), "encode": ()}  # by folder or score
JOINT = "--"  # not a dot, which DVC reads as a step into a mapping
RunStage = Callable[[StageRunner, str, str], None]  # runs a stage of an entry in the runner's folder
Entries = Mapping[str, dict[str, Any]]  # of compress, by their names


@dataclass(frozen=True)
class ChainFolder:
    """The folder of a search. What is in it is not made again, so an interrupted search goes on.

    Attributes:
        run: the teacher.
        entries: the entries that chains are made of.
        place: the folder.
        stages: runs stages in the folder.
        run_stage: how it is called, so that a flow may show each stage.
    """

    run: str
    entries: Entries
    scored: Evaluate
    place: Path
    stages: StageRunner
    run_stage: RunStage = StageRunner.run

    @classmethod
    def of(
        cls, run: str, entries: Entries, scored: Evaluate, until_end: ExitStack, run_stage: RunStage | None = None
    ) -> "ChainFolder":
        """Make the folder of a search, which closes `until_end` at its end.

        It is named after all that chains depend on: the params, and what dvc.lock says of files and code.

        A chain is made by the stages that made the entries' own results, from what these read and wrote.
        """
        locked, data = lockfile.locked(), {entry["data"] for entry in entries.values()}
        stages = [*(f"compress@{name}" for name in entries), *(f"encode@{name}" for name in sorted(data))]
        files = [[locked.get(stage, {}).get(kind) for kind in ("deps", "outs")] for stage in stages]
        inputs = [dict(entries), scored.model_dump(), params.read().get("encode", {}), files]
        place = STATE / f"{run}-{_digest(inputs)}"
        place.mkdir(parents=True, exist_ok=True)
        stages_here = until_end.enter_context(StageRunner(place))
        return cls(run, entries, scored, place, stages_here, run_stage or StageRunner.run)

    def made(self, chain: Chain) -> Path:
        """The model folder of a chain. Raises InputError with the stage's own sentence if it cannot be made."""
        if len(chain) == 1:
            return paths.model(chain[0])
        run = self.run_of(chain)
        target = self.place / paths.model(run)
        if not target.is_dir():
            self.made(chain[:-1])
            values = self.entries_of(chain)
            self._prepare(values)
            for data in values["encode"]:
                if not (self.place / paths.encoded(data)).is_dir():
                    self._make("encode", data)
            self._make("compress", run)
        return target

    def exported(self, run: str, model: Path) -> Path:
        """The model of the teacher, of an entry or of a chain that is made, as ONNX.

        It is exported again if the model, or the params or the code of its export, has changed: the folder is named
        after the entries that chains are made of, not after those made from these. Raises InputError with the stage's
        own sentence if it cannot be exported.

        Args:
            model: the folder of the model of `run`, below this one if it is a chain's.
        """
        entry, name = params.read().get("export", {}).get(run) or {}, run
        if not model.is_relative_to(self.place):
            if run not in (self.run, *self.entries):
                name = _with_digest(run, run)  # a chain may have its name
            _point(self.place / paths.model(name), model)
        target = self.place / paths.onnx(name)
        contents = provenance.content_digest(self.place / paths.model(name))
        digest, stamp = _digest([entry, _code("export"), contents]), self.place / f"exported-{name}"
        if target.is_dir() and not (stamp.is_file() and stamp.read_bytes() == digest.encode()):
            shutil.rmtree(target)
        if not target.is_dir():
            self._prepare({"export": {name: entry}})
            self._make("export", name)
            stamp.write_text(digest)
        return target

    def run_of(self, chain: Chain) -> str:
        """The run of a chain, which is the entry in params.yaml that makes its last step."""
        return [*self.entries_of(chain)["compress"]][-1] if chain[0] in self.entries else chain[0]

    def entries_of(self, chain: Chain) -> dict[str, dict[str, Any]]:
        """The entries of encode, compress and evaluate that params.yaml needs to make the chain."""
        every = params.read()["encode"]
        encode, compress, scored = {}, {}, {}
        teacher, shorter = self.run, ""
        for i, step in enumerate(chain, start=1):
            entry = {**self.entries[step], "teacher": teacher}
            if shorter:
                encoded = {**every[entry["data"]], "vocab": str(paths.model(shorter))}
                entry["data"] = _unique_name("encode", (entry["data"], shorter), encoded)
                encode[entry["data"]] = encoded
            name = _unique_name("compress", chain[:i], entry) if i > 1 else step
            compress[name] = entry
            scored[name] = self.scored.model_dump(exclude_unset=True)
            teacher = name
            if entry["method"] in chains.FIRST:
                shorter = name
        return {"encode": encode, "compress": compress, "evaluate": scored}

    def new_entries(self, chain: Chain, runtime: str) -> dict[str, dict[str, Any]]:
        """The entries of this chain that params.yaml lacks; none for a run that is an entry, but not a step of chains.

        They include the entry of `export` if it was ONNX Runtime that gave the chain its measured speed.
        """
        known = params.read()
        entries = self.entries_of(chain) if chain[0] in self.entries else {}
        if runtime == "onnx":
            entries = {**entries, "export": {self.run_of(chain): {}}}
        return {
            section: {name: entry for name, entry in section_entries.items() if name not in known.get(section, {})}
            for section, section_entries in entries.items()
        }

    def _make(self, stage: str, key: str) -> None:
        self.run_stage(self.stages, stage, key)

    def _prepare(self, values: Mapping[str, Any]) -> None:
        """Write the folder's params, and let the stages find what the graph has made of the entries."""
        data = {entry["data"] for entry in self.entries.values()}
        models = [paths.model(name) for name in (self.run, *self.entries)]
        shared = [paths.ARTIFACTS / "rows", paths.ARTIFACTS / "vocab", Path("encoders")]
        students = [Path(entry["student"]) for entry in self.entries.values() if entry.get("student")]
        students = [folder for folder in students if not folder.is_absolute() and ".." not in folder.parts]
        for folder in (*shared, *models, *map(paths.encoded, data), *students):
            _point(self.place / folder, folder)
        text = yaml_file.dump({"resources": params.read().get("resources", {}), **values})
        (self.place / params.FILE).write_text(text, encoding="utf-8")


def _digest(inputs: Any) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]


@cache
def _code(stage: str) -> str:
    """The manifest of the code that a stage runs."""
    return code_manifest.text(code_manifest.stages()[stage].files)


def _point(link: Path, folder: Path) -> None:
    """Link to a folder of the checkout; a link into the checkout that this one was copied from is made anew."""
    elsewhere = link.is_symlink() and link.resolve() != folder.resolve()
    if folder.exists() and (elsewhere or not link.exists()):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(folder.resolve())


def _unique_name(section: str, names: Chain, entry: Mapping[str, Any]) -> str:
    """The names, joined; with a digest if that is too long, or may name another entry or a chain of other names."""
    known, joined = params.read(), name_of(names)
    clashes = any(joined in known.get(other, {}) for other in CLASHING[section])
    is_taken = clashes or known.get(section, {}).get(joined, entry) != entry
    if is_taken or len(joined) > LONGEST or any(JOINT in name for name in names):
        return _with_digest(joined, [names, entry])
    return joined


def _with_digest(name: str, inputs: Any) -> str:
    digest = _digest(inputs)
    return f"{name[: LONGEST - len(digest) - 1]}-{digest}"


def name_of(chain: Chain) -> str:
    """A chain's name: the names of its entries, joined."""
    return JOINT.join(chain)
