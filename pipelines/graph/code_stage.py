"""The stage `code` in a run of the graph: the current code, the stages that it makes stale, its entry of dvc.lock."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.graph import code_manifest, dvc_steps, import_closure


@dataclass(frozen=True)
class CodeStage:
    """The manifests of the current code. They are kept in memory, so that asking what is stale changes no file.

    Attributes:
        stage: DVC's stage `code`; None if the graph has none.
        texts: maps the path of each manifest to its text.
    """

    stage: Any = None
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, stages: Iterable[Any]) -> "CodeStage":
        """Find the stage `code` among DVC's stages, and compute its manifests."""
        for stage in stages:
            if stage.addressing == code_manifest.STAGE:
                texts = code_manifest.manifests(import_closure.here(), Path(code_manifest.FILE))
                return cls(stage, {path.as_posix(): text for path, text in texts.items()})
        return cls()

    def would_run(self, stage: Any) -> bool:
        """Return whether a stage's command, outputs, params, files or code differ from dvc.lock."""
        if stage.changed_stage() or stage.changed_outs():
            return True
        if stage.frozen:
            return False
        return bool(stage.is_callback or stage.always_changed or any(map(self.differs, stage.deps)))

    def differs(self, dep: Any) -> bool:
        """Return whether a dep differs from dvc.lock; for a manifest, compare the text that would be written."""
        text = self.texts.get(str(dep))
        if text is None:
            return bool(dep.status())
        return bool(dep.hash_info.value != hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())

    def write(self, repo: Any) -> None:
        """Write the manifests and the stage's entry of dvc.lock, as `dvc repro code` would.

        Raises InputError if the manifests have to change while another DVC command reads them.
        """
        texts = {Path(path): text for path, text in self.texts.items()}
        if self.stage is None or (texts == code_manifest.written() and not self._is_stale()):
            return
        with dvc_steps.writing(repo, [self.stage]):
            code_manifest.write(texts)
            if self._is_stale():
                dvc_steps.finish(self.stage)

    def _is_stale(self) -> bool:
        return bool(self.stage.changed_stage() or self.stage.changed_outs())
