"""codah: adversarial sentence completion in four choices (Chen et al. 2019), in SWAG's shape."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from pipelines.core.section import Section
from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.records import tsv
from pipelines.data.sources import Source

_HOST = "https://raw.githubusercontent.com/Websail-NU/CODAH/acf7ffa4/data"
_HEADER = ("category", "text", "choice0", "choice1", "choice2", "choice3", "label")
_FULL = Source(
    "full_data.tsv",
    url=f"{_HOST}/full_data.tsv",
    mirror="codah/data/full_data.tsv",
    size_bytes=485130,
    sha256="96689f2abf2f09eb91af50e2d8f92bb553e157601908a1cee83fe68670b5c3ea",
    licence="ODC-BY 1.0",
)


def _fold(number: int, split: str, sha256: str) -> Source:
    place = f"cv_split/fold_{number}/{split}.tsv"
    return Source(
        f"fold_{number}-{split}.tsv",
        url=f"{_HOST}/{place}",
        mirror=f"codah/data/{place}",
        sha256=sha256,
        licence="ODC-BY 1.0",
    )


_DIGESTS = (  # sha256 of train, dev and test of each fold
    (
        "790edcdfcba7d07b66ae2f3074c9ed17239b1f0865962f1bea0e0768207f0d43",
        "96c69a4240e6b0ef1f2364aeaa9d549e1b36188814f63d52bbc678a57b855923",
        "2065089015df59d7cf0328bdd32a9e2088ff66ab9639d926acf26a3b0203454e",
    ),
    (
        "99841c58cbef1afb8aff8bf4ee8827d0824c3e787ff55d9a365a39284edde7ec",
        "96c69a4240e6b0ef1f2364aeaa9d549e1b36188814f63d52bbc678a57b855923",
        "0f63cf4b30a7bd01f44f466cfa072bd99156e9f9a9042ac659f87b11e9bdbebb",
    ),
    (
        "79ea621ba442cb8ebb64bf06179a038cfbccc875947a49fca1a487ce79bdc652",
        "96c69a4240e6b0ef1f2364aeaa9d549e1b36188814f63d52bbc678a57b855923",
        "285996f708245858789a9a99740de07cb20c33b8fb071e772a047907727ed0ac",
    ),
    (
        "27e6a6b55770bde68cedb97f8046af2fa469ca6082eb3ffc803ab61b39555bae",
        "96c69a4240e6b0ef1f2364aeaa9d549e1b36188814f63d52bbc678a57b855923",
        "eb91713dd8aaca7bf7997168bd072ea0aa55c947c91e6f0869f48a2904a3c8fd",
    ),
    (
        "27e6a6b55770bde68cedb97f8046af2fa469ca6082eb3ffc803ab61b39555bae",
        "eb91713dd8aaca7bf7997168bd072ea0aa55c947c91e6f0869f48a2904a3c8fd",
        "96c69a4240e6b0ef1f2364aeaa9d549e1b36188814f63d52bbc678a57b855923",
    ),
)
SPLITS = ("train", "dev", "test")
SOURCES = {
    "official": [
        _FULL,
        *(_fold(i, split, digests[k]) for i, digests in enumerate(_DIGESTS) for k, split in enumerate(SPLITS)),
    ]
}
_TASK = Task("full", "choice", ("0", "1", "2", "3"), "accuracy", ("train",), "en")
TASKS = {"full": _TASK, "fold": _TASK.with_(name="fold", splits=SPLITS)}


class Params(Section):
    """The fold of the five-fold cross-validation, for the task `fold`."""

    fold: int = Field(0, ge=0, le=4)


task = declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Rows of one split."""
    path = raw / ("full_data.tsv" if task.name == "full" else f"fold_{params.fold}-{split}.tsv")
    for number, (at, record) in enumerate(tsv(path, header=_HEADER)):
        label = declared.name_of(path, at, record["label"], task.labels)
        choices = [record[f"choice{i}"] for i in range(4)]
        yield {"id": f"{split}-{number}", "text": record["text"], "choices": choices, "label": label}


def verify(raw: Path, edition: str) -> None:
    """Check that the whole file has as many rows as declared."""
    declared.check_rows(raw, _TASK, {"train": 2776}, parse, Params(fold=0))
