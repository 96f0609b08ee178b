"""A corpus, a tokenizer, an objective and a method are one file each, and a line of params.yaml names each."""

from pathlib import Path

import pytest
import yaml

from pipelines.checkpoints import folder as model_folder
from pipelines.core import params, plugins, tables
from pipelines.graph import checking, code_manifest
from pipelines.models import backbones
from pipelines.stages import build_vocab, compress, encode, finetune, prepare, pretrain
from tests.contracts.test_plugins import check_tokenizer
from tests.support import tiny

FILES = {
    "pipelines/data/corpora/lines.py": '''"""lines: a label, a tab and a text on each line."""

from pipelines.core.task import Task
from pipelines.data import declared

SOURCES = {}
TASKS = {
    "labels": Task("labels", "single", ("cat", "dog"), "accuracy", ("train", "test"), "en"),
    "texts": Task("texts", "text", splits=("train", "test"), language="en"),
}
Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw, task, split, params):
    for number, line in enumerate((raw / f"{split}.txt").read_text().splitlines()):
        label, text = line.split("\\t")
        row = {"id": f"{split}-{number}", "text": text}
        yield row | {"label": label} if task.kind == "single" else row


def verify(raw, edition):
    """Nobody has declared how many lines there are."""
''',
    "pipelines/text/tokenizers/letters.py": '''"""letters: single characters, without white space."""

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from pipelines.core.section import Section
from pipelines.text import backend, vocab


class Params(Section):
    """Nothing to choose."""


def train(texts, folder, size, params):
    letters = sorted({letter for text in texts() for letter in text if not letter.isspace()})
    pieces = [*vocab.SPECIAL, *letters][:size]
    tokenizer = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token=vocab.SPECIAL[1]))
    by_letter = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), by_letter])
    tokenizer.add_special_tokens(list(vocab.SPECIAL))
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), vocab.SPECIAL, strict=True))
    backend.write(tokenizer, folder, "PreTrainedTokenizerFast", names, {"bertline_tokenizer": "letters"})


def load(folder):
    return backend.read("letters", folder)
''',
    "pipelines/objectives/last_letter.py": '''"""last_letter: predict the last token before [SEP]."""

from pipelines.models.batch import IGNORE
from pipelines.objectives.mlm import Params, READS, around, auto, check, predict  # noqa: F401


def corrupt(batch, rng, params, tokenizer):
    ids = batch["input_ids"]
    special = (ids == tokenizer.pad_id) | (ids == tokenizer.cls_id) | (ids == tokenizer.sep_id)
    last = (~special).long().cumsum(dim=1).argmax(dim=1, keepdim=True)
    labels = ids.new_full(ids.shape, IGNORE).scatter(1, last, ids.gather(1, last))
    return {**batch, "input_ids": ids.scatter(1, last, tokenizer.mask_id), "labels": labels}
''',
    "pipelines/compression/methods/first_layer.py": '''"""first_layer: keep the first layer alone."""

from pipelines.core.section import Section
from pipelines.models import backbones

EXAMPLE = {}


class Params(Section):
    """Nothing to choose."""


def compress(context, params):
    backbones.set_layers(context.teacher, [0])
    return context.teacher
''',
}
PARAMS = {
    "prepare": {
        "it": {"corpus": "lines", "source": "lines", "task": "labels"},
        "text": {"corpus": "lines", "source": "lines", "task": "texts"},
    },
    "build_vocab": {"letters": {"rows": "it", "tokenizer": "letters", "size": 40}},
    "encode": {
        "it": {"task": "it", "vocab": "artifacts/vocab/letters", "max_length": 16},
        "text": {"task": "text", "vocab": "artifacts/vocab/letters", "max_length": 16},
    },
    "pretrain": {"encoder": {"data": "text", "objective": "last_letter", "epochs": 1}},
    "finetune": {"it": {"data": "it", "encoder": "artifacts/models/encoder", "epochs": 1}},
    "compress": {"small": {"teacher": "it", "data": "it", "method": "first_layer"}},
}


@pytest.fixture
def with_plugins(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows; to the packages of plugins, the files stand as if they were beside the others."""
    for file, text in FILES.items():
        place = checkout / file
        place.parent.mkdir(parents=True)
        place.write_text(text)
        package = plugins.importlib.import_module(str(Path(file).parent).replace("/", "."))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(place.parent)])
    (checkout / "lines").mkdir()
    for split, count in (("train", 12), ("test", 4)):
        lines = [f"{label}\ta {sound} is heard" for label, sound in (("cat", "purr"), ("dog", "bark"))] * (count // 2)
        (checkout / "lines" / f"{split}.txt").write_text("\n".join(f"{line} {i}" for i, line in enumerate(lines)))
    entry = PARAMS["pretrain"]["encoder"] | {"start": str(tiny.shape("bert", checkout)), "config": tiny.SMALL["bert"]}
    (checkout / params.FILE).write_text(yaml.safe_dump(PARAMS | {"pretrain": {"encoder": entry}}))
    return checkout


def test_one_file_and_one_line_are_enough(with_plugins: Path) -> None:
    checking.check_options(checking.check())
    for name in PARAMS["prepare"]:
        prepare.main(name)
    assert tables.read(Path("artifacts/rows/it/test.parquet")).num_rows == 4
    build_vocab.main("letters")
    check_tokenizer("letters", Path("artifacts/vocab/letters"))
    for name in PARAMS["encode"]:
        encode.main(name)
    pretrain.main("encoder")
    finetune.main("it")
    compress.main("small")
    smaller, task = model_folder.load_tuned(Path("artifacts/models/small"))
    assert (len(backbones.layers(smaller)), task.labels) == (1, ("cat", "dog"))


def test_the_graph_asks_for_the_manifest_of_a_new_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """dvc.yaml names no plugin, so a new one needs no line there."""
    text = Path(checking.__file__).parents[2].joinpath("dvc.yaml").read_text()
    for package in ("corpora", "tokenizers", "objectives", "methods"):
        names = plugins.names(next(f for f in map(_package, FILES) if f.endswith(package)))
        assert not [name for name in names if f"{package}/{name}" in text]
        assert f"{package}/" in text
    assert code_manifest.stages()


def _package(file: str) -> str:
    return str(Path(file).parent).replace("/", ".")
