"""jaquad: Japanese questions on Wikipedia paragraphs in SQuAD's form (So et al. 2022)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.squad_json import questions
from pipelines.data.sources import Source

_HOST = "https://raw.githubusercontent.com/SkelterLabsInc/JaQuAD/23f5d72c/data"
# sha256 of jaquad_train_0000.json, ...
_TRAIN = (
    "7c76df56ad78b2e083eddfa79d0d2af216b9ef6f7d8d5f9cf58104319cbdbabd",
    "e1228d84518af8d818eb904a4b24ac1469859b966d6ef1ad531c327da016be55",
    "fb6184f5e935f56176de4ee5d8fd8792eca857fdcf60307d8a547a868bd215bd",
    "7671092aa3ff751757ed98fb702c2c2a16453d70ff309e21d5314a3e84c83f61",
    "c62b1b1a1fb074aff496db6005a5b7786bb52509765d9ad20c6478d8d14a8bb3",
    "ec9e0d43eb689581e081248ee9ac231900b517a77950ec4a36705e6f981f9618",
    "d88329741cf61424795b9a29a1cce891a2db53c4336a2cfbb6fc8f03da6a602f",
    "f12f859043a9c83b1079ff82922b7e3b1a329022524f39a123519f45c8fe7a25",
    "2a302ed2cb0ed592530b9ea7875cdee66025086ec86fe60d7aa7ae3426230b39",
    "4531612d3164d72f3c0f9ad935157f3e4ff79ef7647268c80b615a9a8b0a3ff7",
    "dec81ba04ff3fe719e51f8fb4fd9d0eec276963a639e38de3007ad47fc7c1947",
    "1af7da9c0643e29360f0611ff42e74ec7bb477110c891a833e7ea8fb876d9892",
    "9af2a3a32100323d5fcb71183d4b0c31600e36d4bfca278f29764d40a881b853",
    "9ef3c3c8b2af358edaa59a909224a68b9ad7548d07190f2298c137d075601365",
    "4b2ed95653f64b724879c091710360b72e9c93b40c71b4281d64e7a56a3ae3f7",
    "0ac78419e6196fb9fd0cfb690a6fb9cf5ab7c95ceb509cbdc02947d926952a60",
    "a64b45cf5b2c080dbd6ecbc6c9e8f41ddeb5411f1b1b690cce4b8537a1003819",
    "b4cd902d2c85417369e83990f48d87f60191c2444b9747160f9f89d3a2943c96",
    "5c9b12ec323ecd5156bab3babc2538db9d822ab58d08ad30a35833f1e3052aab",
    "c034bf47fab11ac6619f6778416d93397b25492691d2b81872159e7431ff123d",
    "72b68f6eb8a6ca80ee0d9b8c55577720c8b105249764b1307222caea84bcaf20",
    "be072517a36dbf5ccce7d47960e577ca64f4687de5a8f1a075f033c551fe3c39",
    "9ca6aa5628dc299f9f4071779051f3218aba896f6c5f4688d2a1770f8997813e",
    "a32c64bdd7860dd47a2aef47316443cf5d3b0c5e2fd472c4ef1058f70ebdd968",
    "25051484c69c99bcd8eb2ce4687599a40d070e544a672231b935cdeb048d6b4d",
    "98b5c1320d3626eef8a312186b04695fce476a73f90877ffdaccf66d22cf9b8a",
    "fa3f3207aa6835b80ed60f0c82a1ab610e91d318bb722460a99d38cf872b73b4",
    "10eb3445245974b2eb667ece0aeae7a3d60430c179bc5517b2988eb71ae8e3c4",
    "c814d1818ded64be1489982d06860bd1f530b6a5d33341895d93645762758908",
    "ec85984d650271cd2ca697058ec8c26fca306dfab2249b505efd727c5e959232",
)
_DEV = (
    "8712bc34623c6fec856f170ff0b8566421c3c261752b1797b94938f48c1f7bc4",
    "6d777275f61b0250eb2d8f595bf6c602afecb7b7406e7c0c9c3b9d763027068d",
    "b9c6cc23e5ae647eba6286189bac293a16a28b01ca707e1dc956bfcb13a04389",
    "041fe1fdcb32d95974afaae0fb151aed8ee9394889349bb0b5a1c921391cb1d0",
)


def _sources(split: str, digests: tuple[str, ...]) -> list[Source]:
    names = [f"jaquad_{split}_{number:04}.json" for number in range(len(digests))]
    return [
        Source(
            name,
            url=f"{_HOST}/{split}/{name}",
            mirror=f"jaquad/data/{split}/{name}",
            sha256=digest,
            licence="CC BY-SA 3.0",
        )
        for name, digest in zip(names, digests, strict=True)
    ]


SOURCES = {"official": [*_sources("train", _TRAIN), *_sources("dev", _DEV)]}
TASKS = {"jaquad": Task("jaquad", "span", (), "f1", ("train", "dev"), "ja", normalization="jaquad")}
ROWS = {"train": 31748, "dev": 3939}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Questions of one split, file by file."""
    for source in SOURCES["official"]:
        if source.name.startswith(f"jaquad_{split}_"):
            yield from questions(raw / source.name)


def verify(raw: Path, edition: str) -> None:
    """Check that every split has as many questions as declared."""
    declared.check_rows(raw, TASKS["jaquad"], ROWS, parse, Params())
