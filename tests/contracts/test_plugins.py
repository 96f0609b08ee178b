"""Every plugin file keeps its folder's contract; a new one is picked up by itself."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import formats
from pipelines.compression.context import Context, Data
from pipelines.core import plugins
from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.core.schema import ROWS
from pipelines.core.task import Task
from pipelines.text import tokenizer
from pipelines.training.distributed import fitting
from tests.support import compressed, tiny
from tests.support.fits import rows

CORPORA, TOKENIZERS = "pipelines.data.corpora", "pipelines.text.tokenizers"
METHODS = "pipelines.compression.methods"
FEW = {"epochs": 1, "batch_size": 8}
# test_smaller_models.py has those that claim families
AS_IT_IS = [name for name in plugins.names(METHODS) if not compressed.families(name)]


@pytest.mark.parametrize("name", plugins.names(CORPORA))
def test_a_corpus_declares_what_it_is(name: str) -> None:
    corpus = plugins.load(CORPORA, name)
    assert all(source.licence for sources in corpus.SOURCES.values() for source in sources)
    assert all(
        source.url or source.path or source.sha256 or source.sha256_begins
        for sources in corpus.SOURCES.values()
        for source in sources
    )
    assert all(task.kind in ROWS and isinstance(task, Task) for task in corpus.TASKS.values())
    assert list(inspect.signature(corpus.parse).parameters) == ["raw", "task", "split", "params"]
    assert list(inspect.signature(corpus.task).parameters) == ["raw", "name", "params"]
    assert callable(corpus.verify)


# the files whose whole sha256 nobody has published: it is absent, and ingest says so
WITHOUT_DIGEST = {
    "conll2003": {"eng.train", "eng.testa", "eng.testb"},  # of which the beginning is known
    "jglue": {"train-v1.3.json", "valid-v1.3.json", "test-v1.3.json"},  # of jsquad
    "livedoor": {"ldcc-20140209.tar.gz"},  # whose tree of files has a digest
}


@pytest.mark.parametrize("name", plugins.names(CORPORA))
def test_a_digest_is_whole_or_absent(name: str) -> None:
    sources = [
        source for listed in plugins.load(CORPORA, name).SOURCES.values() for source in listed if not source.path
    ]
    without = {source.name for source in sources if source.sha256 is None}
    assert without == WITHOUT_DIGEST.get(name, set())
    assert all(re.fullmatch("[0-9a-f]{64}", source.sha256) for source in sources if source.sha256 is not None)
    assert not any(source.sha256 and source.sha256_begins for source in sources)


@pytest.mark.parametrize("name", sorted({*plugins.names(TOKENIZERS)} - {"hf"}))
def test_a_tokenizer_learns_the_same_twice_saves_and_encodes(name: str, tmp_path: Path) -> None:
    plugin = plugins.load(TOKENIZERS, name)
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        plugin.train(lambda: iter(tiny.TEXTS * 3), folder, 300, plugin.Params())
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    check_tokenizer(name, tmp_path / "one")


def test_a_tokenizer_of_others_is_read_as_it_is(tmp_path: Path) -> None:
    ours = plugins.load(TOKENIZERS, "bpe")
    ours.train(lambda: iter(tiny.TEXTS), tmp_path, 300, ours.Params())
    (tmp_path / tokenizer.CONFIG).write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    check_tokenizer("hf", tmp_path)
    with pytest.raises(UsageError, match="hf reads an existing tokenizer"):
        plugins.load(TOKENIZERS, "hf").train(lambda: iter(tiny.TEXTS), tmp_path, 300, ours.Params())


def check_tokenizer(name: str, folder: Path) -> None:
    """It is found by its folder, its ids are in range, and its offsets lie inside the texts."""
    loaded = tokenizer.load(folder)
    pieces, spans = loaded.encode(tiny.TEXTS), loaded.encode_spans(tiny.TEXTS)
    assert loaded.name == loaded.about()["name"] == name
    assert len(pieces.offsets) == len(tiny.TEXTS) + 1
    assert pieces.values.max() < loaded.vocab_size
    assert np.array_equal(pieces.values, spans.ids.values)
    lengths = np.repeat([len(text) for text in tiny.TEXTS], spans.ids.lengths)
    assert ((spans.starts < spans.ends) & (spans.ends <= lengths)).all()
    special = loaded.tokens([loaded.pad_id, loaded.unk_id, loaded.cls_id, loaded.sep_id, loaded.mask_id])
    assert [token.strip("[<>]").lower() for token in special] in (
        ["pad", "unk", "cls", "sep", "mask"],
        ["pad", "unk", "s", "/s", "mask"],
    )


@pytest.mark.parametrize("name", AS_IT_IS)
def test_a_method_makes_a_model_that_is_saved_and_opened_again(name: str, checkout: Path) -> None:
    method = plugins.load(METHODS, name)
    folder = tiny.classifier(checkout / "teacher", layers=4)
    teacher, task = model_folder.load_tuned(folder)
    inputs = {"input_ids": torch.randint(5, 50, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.int64)}
    trains = name in compressed.STUDENTS
    params = method.Params(**method.EXAMPLE | (FEW if trains else {}))
    with fitting("compress", name, Resources()) as fit:
        texts, data = tokenizer.load(folder), Data(rows(vocab=50), None, 0)
        context = Context(teacher, task, data, texts, None, 1, fit, checkout / "cache", OpenedFolder(folder))
        smaller = method.compress(context, params)
    (checkout / "out").mkdir()
    model_folder.save(smaller, checkout / "out", folder, task)
    with torch.inference_mode():
        expected = smaller.eval()(**inputs).logits
        logits = model_folder.load_tuned(checkout / "out")[0](**inputs).logits
    assert logits.equal(expected)
    size = [formats.weights(f).stat().st_size for f in (checkout / "out", folder)]
    assert size[0] < size[1]


def test_a_wrong_name_says_which_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"no data.corpora 'livedor' \(did you mean 'livedoor'\?\); there are: codah, "
    ):
        plugins.load(CORPORA, "livedor")


@pytest.mark.parametrize("name", ["distilbert", "group_quant", "pkd", "prune_heads", "theseus", "tinybert"])
def test_a_method_names_its_differences_from_the_paper(name: str) -> None:
    assert re.search(r"^Differences? from the paper: ", inspect.getdoc(plugins.load(METHODS, name)) or "", re.M)
