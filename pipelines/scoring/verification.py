"""The verification of answers: the audit of their job, their receipts, and their replay."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.scoring import answer_replay, audit, job_folders, job_record, receipt_check
from pipelines.scoring.answer_replay import AnswerReplay
from pipelines.scoring.audit import Audit
from pipelines.scoring.receipt_check import Checked


@dataclass(frozen=True)
class Verification:
    """The results; None for what was not asked for, or is not possible without a job."""

    audit: Audit | None
    receipts: Checked | None
    replay: AnswerReplay | None

    @property
    def findings(self) -> list[str]:
        """A sentence for each finding."""
        return [line for part in (self.audit, self.receipts, self.replay) if part for line in part.findings]

    @property
    def ok(self) -> bool:
        return not self.findings

    def answer(self) -> dict[str, Any]:
        """The verification for a program."""
        answer = self.audit.answer() if self.audit else {}
        answer |= {"ok": self.ok, "findings": self.findings}
        if self.receipts:
            answer["receipts"] = self.receipts.answer()
        if self.replay:
            answer["replayed"] = self.replay.rows
        return answer

    def plain(self) -> str:
        """The verification for a person."""
        lines = [audit.plain(self.audit.answer())] if self.audit else []
        for part in (self.receipts, self.replay):
            if part:
                lines += [*part.findings, part.sentence()]
        return "\n".join(lines)


def verify(
    target: Path | str, keys: Path | None = None, replay: bool = False, prefix: str | None = None
) -> Verification:
    """Audit the job in `target`, if it is the folder of one; check receipts by `keys`; predict again if `replay`.

    `target` is of this machine or s3://. `prefix` chooses the answers whose receipts are checked; by default those of
    the job, or all that have receipts, and answers without receipts beside them are a finding.

    Raises InputError if it is no folder of a job, and neither keys nor a replay make it a file of answers.
    """
    known = ReceiptKeys.read(keys) if keys else None
    with job_folders.opened(target) as folder:
        folder.update()
        job = job_record.read(folder.path)
        audited = audit.of(folder) if job or not (keys or replay) else None
        checked, of_job = None, job.prefix if job else None
        if known:
            checked = receipt_check.check(folder, known, of_job if prefix is None else prefix, prefix is not None)
        return Verification(audited, checked, answer_replay.replay(folder) if replay else None)
