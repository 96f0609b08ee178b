"""The reasons why a stage would run: params with both values, files, and code with the chain of imports to it."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core import params
from pipelines.core.errors import InputError
from pipelines.graph import code_manifest, dvc_steps, import_closure
from pipelines.graph.code_stage import CodeStage
from pipelines.graph.plan import Plan

NOTHING = "nothing"  # shown for a param that is absent
SHOWN = 20  # the most changed files of a folder that are listed


def why(name: str) -> list[str]:
    """Lines that say why a stage would run, or that it is up to date. Raises InputError if there is no such stage."""
    return lines(reasons(name))


def reasons(name: str) -> dict[str, Any]:
    """The reasons why a stage would run: {"stage", "would_run", "reasons", "first", "as_locked"}.

    `first` names the stages that would run before it, and may change it; `as_locked` counts what is as in dvc.lock.
    Raises InputError if there is no such stage.
    """
    params.read()  # DVC would show a traceback
    with dvc_steps.opened() as repo, dvc_steps.locked(repo):
        plan = Plan.of(repo, [name])
        stage = plan.stages.get(name)
        if name == code_manifest.STAGE:
            always = ["it runs every time: it lists the code that the other stages run"]
            return {"stage": name, "would_run": True, "reasons": always, "first": [], "as_locked": ""}
        if stage is None:
            raise InputError(f"no stage {name}; name one, such as {', '.join(list(plan.stages)[-3:])}")
        why_now, first = list(_reasons(stage, plan.code)), _before(plan, name)
        locked = "" if why_now else _counted(stage, plan.code)
        return {"stage": name, "would_run": bool(why_now), "reasons": why_now, "first": first, "as_locked": locked}


def lines(answer: dict[str, Any]) -> list[str]:
    """The reasons as lines of text."""
    name = answer["stage"]
    if name == code_manifest.STAGE:
        return [f"{name} {answer['reasons'][0].removeprefix('it ')}"]
    before = [f"  {other} would run first, and may change it" for other in answer["first"]]
    if answer["would_run"]:
        return [f"{name} would run:", *(f"  {line}" for line in answer["reasons"]), *before]
    if before:
        return [f"{name} is up to date, but", *before]
    return [f"{name} is up to date: {answer['as_locked']} are as in dvc.lock"]


def affected_lines(count: int, reasons: dict[str, str]) -> list[str]:
    """The answer of `affected` as lines of text."""
    return [f"{name}: {reason}" for name, reason in reasons.items()] or [f"{count} stages are up to date"]


def affected(targets: list[str]) -> tuple[int, dict[str, str]]:
    """The number of stages, and a reason for each that a run of `targets` would run, in a possible order."""
    params.read()
    with dvc_steps.opened() as repo, dvc_steps.locked(repo):
        plan = Plan.of(repo, targets)
        reasons = {}
        for name in plan.affected:
            above = ", ".join(sorted(plan.upstream[name].intersection(plan.affected)))
            stale = name in plan.stale
            first = next(_reasons(plan.stages[name], plan.code)) if stale else f"if {above} changes what it reads"
            reasons[name] = first
        return len(plan.stages), reasons


def changed_sources() -> dict[str, str]:
    """The source data that differs from dvc.lock: each changed file or folder with its current md5.

    Source data is what stages read and none writes, without code and params. Data that no stage has read yet is left
    out, so the first run is never automatic.
    """
    with dvc_steps.opened() as repo, dvc_steps.locked(repo):
        plan, changed = Plan.of(repo, []), {}
        outs = {str(out) for stage in plan.stages.values() for out in stage.outs}
        for stage in plan.stages.values():
            for dep in stage.deps:
                source = dep not in stage.params and str(dep) not in outs and not code_manifest.is_code(str(dep))
                if source and dep.hash_info and dep.exists and dep.changed_checksum():
                    changed[str(dep)] = str(dep.get_hash().value)
        return changed


def _before(plan: Plan, name: str) -> list[str]:
    """The affected stages upstream of a stage, in order of dependency."""
    above, waiting = set[str](), [name]
    for waiting_stage in waiting:
        new = plan.upstream[waiting_stage] - above
        above |= new
        waiting += new
    return [other for other in plan.affected if other in above]


def _reasons(stage: Any, code: CodeStage) -> Iterator[str]:
    """A line for each difference of a stage from dvc.lock: command, code, params, files and outputs."""
    if stage.is_callback or stage.always_changed:
        yield "it runs every time"
    if not any(output.hash_info for output in (*stage.deps, *stage.outs)):
        yield "it has never run: dvc.lock does not have it"
        return
    if stage.changed_stage():
        yield f"its command differs from dvc.lock: {stage.cmd}"
    yield from _edits(stage, code)
    for dep in stage.deps:
        status = {} if str(dep) in code.texts else dep.status()
        if status and dep in stage.params:
            was, now = dep.hash_info.value or {}, dep.read_params()
            for key in dep.params:
                yield from (
                    f"{dep}: {line}" for line in _differences(key, was.get(key, NOTHING), now.get(key, NOTHING))
                )
        elif status:
            yield f"{dep}: {status[str(dep)]}{_inside(stage.repo, dep)}"
    for out in stage.outs:
        for path, how in out.status().items():
            yield f"{path}: {how}{_inside(stage.repo, out)}"


def _differences(key: str, was: Any, now: Any) -> Iterator[str]:
    """A line `key: before -> now` for every value at or below `key` that differs."""
    if isinstance(was, dict) and isinstance(now, dict):
        for inner in dict.fromkeys([*was, *now]):
            yield from _differences(f"{key}.{inner}", was.get(inner, NOTHING), now.get(inner, NOTHING))
    elif was != now:
        yield f"{key}: {was} -> {now}"


def _inside(repo: Any, tracked: Any) -> str:
    """The files of a folder that differ, in parentheses; "" if DVC's cache no longer has the earlier list of files."""
    place = Path(tracked.fs_path)
    if not tracked.hash_info or not tracked.hash_info.isdir or not place.is_dir():
        return ""
    try:
        listed = json.loads(Path(repo.cache.local.oid_to_path(tracked.hash_info.value)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    was = {file["relpath"]: file["md5"] for file in listed}
    now = {file.relative_to(place).as_posix(): file for file in place.rglob("*") if file.is_file()}
    changed = [f"{name} {'removed' if name in was else 'new'}" for name in sorted(was.keys() ^ now.keys())]
    changed += [f"{name} modified" for name in sorted(was.keys() & now.keys()) if _md5(now[name]) != was[name]]
    return f" ({', '.join(changed[:SHOWN])}{', ...' if len(changed) > SHOWN else ''})" if changed else ""


def _md5(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _edits(stage: Any, code: CodeStage) -> Iterator[str]:
    """A line for each code file that differs from dvc.lock, with the chain of imports that leads to it."""
    chains, changed = _Chains(stage), dict[str, str]()
    for dep in stage.deps:
        if (path := str(dep)) in code.texts and code.differs(dep):
            was, now = _manifest(stage.repo, dep), code_manifest.read(code.texts[path])
            if was is None:
                yield f"{path}: modified; DVC's cache lacks the earlier list, so the changed files are unknown"
                continue
            for file in sorted(was.keys() | now.keys()):
                if was.get(file) != now.get(file):
                    changed[file] = "new" if file not in was else "modified" if file in now else "no longer imported"
    yield from (f"{file}: {how}{chains.of(file)}" for file, how in changed.items())


def _manifest(repo: Any, dep: Any) -> dict[str, str] | None:
    """The manifest that dvc.lock records: the digest of each file. None if DVC's cache does not have it."""
    try:
        return code_manifest.read(Path(repo.cache.local.oid_to_path(dep.hash_info.value)).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        return None


class _Chains:
    """The chains of imports that lead from a stage to a file."""

    def __init__(self, stage: Any) -> None:
        section, _, key = stage.addressing.partition("@")
        root = import_closure.here()
        self.closure = code_manifest.stages(root, graph=Path(code_manifest.FILE)).get(section)
        entry = (params.read().get(section) or {}).get(key) or {}
        named = self.closure.named if self.closure else ()
        self.plugins = {
            f"{section}.{key}.{plugins.key}": import_closure.closure(
                f"{plugins.package.replace('.', '/')}/{entry[plugins.key]}.py", root
            )
            for plugins in named
        }

    def of(self, file: str) -> str:
        """The chain of imports to a file, in parentheses."""
        if self.closure and file in self.closure.files:
            return f" ({' -> '.join(self.closure.chain(file))})"
        for key, plugin in self.plugins.items():
            if file in plugin.files:
                return f" ({' -> '.join([key, *plugin.chain(file)])})"
        return ""


def _counted(stage: Any, code: CodeStage) -> str:
    paths = [str(dep) for dep in stage.deps if dep not in stage.params]
    values = sum(len(dep.params) for dep in stage.params)
    files = {file for path in paths for file in code_manifest.read(code.texts.get(path, ""))}
    read = sum(path not in code.texts for path in paths)
    of_code = f"{_number(len(files), 'file')} of code, " if files else ""
    inputs = f"{read} file{' or folder' if read == 1 else 's and folders'} that it reads"
    return f"its command, {_number(values, 'param')}, {of_code}{inputs} and {_number(len(stage.outs), 'output')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
