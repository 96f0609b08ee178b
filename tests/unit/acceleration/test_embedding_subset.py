"""The embedding table of the words in use: the same training as with all of it, and every word's vector at the end."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.acceleration import embedding_subset
from pipelines.checkpoints import new_head
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.models import backbones, shapes
from pipelines.models.factorized import Factorized
from pipelines.training import losses, strategies
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import fitting
from tests.support import tiny
from tests.support.fits import rows

FAMILIES = list(backbones.BACKBONES)
OPTIMIZERS = [{"learning_rate": 1e-2}, {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1}]


def trained(source: Path, data: Encoded, words: bool, **changes: object) -> tuple[torch.nn.Module, int]:
    """A head and its encoder after two epochs, and how many rows the embedding table had while they trained."""
    entry = Finetune(data="d", encoder="e", epochs=2, batch_size=4, weight_decay=0.5, **changes)
    torch.manual_seed(2)
    model = new_head.for_task(source, tiny.TASK, "linear")
    groups = partial(strategies.groups, params=entry)
    groups(model)
    with (
        fitting("finetune", f"w{words}", Resources(acceleration=False)) as fit,
        embedding_subset.only(model, data.ids if words else every(model), 0) as on,
    ):
        assert on == words
        size = len(backbones.encoder(model).get_input_embeddings().weight)
        fit(model, losses.classification, RowBatches(data, 4, 2, 1, 0), entry, groups=groups)
    return model, size


def every(model: torch.nn.Module) -> np.ndarray:
    return np.arange(backbones.encoder(model).config.vocab_size)


def few_words() -> Encoded:
    """Rows of thirty different words."""
    return rows(vocab=35)


@pytest.mark.parametrize("changes", OPTIMIZERS, ids=["adamw", "sgd"])
@pytest.mark.parametrize("family", FAMILIES)
def test_training_is_that_of_the_whole_table(family: str, changes: dict, checkout: Path) -> None:
    source = tiny.of_family(family, checkout / "encoder")
    data = few_words()
    whole, every_word = trained(source, data, False, **changes)
    part, some = trained(source, data, True, **changes)
    assert some == len(np.union1d(data.ids, [0])) + 1 < every_word
    weights = part.state_dict()
    assert set(weights) == set(whole.state_dict())
    for name, tensor in whole.state_dict().items():
        assert torch.allclose(weights[name].float(), tensor.float(), atol=1e-5), name
    first = backbones.encoder(new_head.for_task(source, tiny.TASK, "linear")).get_input_embeddings().weight
    last = backbones.encoder(part).get_input_embeddings().weight
    unused = np.setdiff1d(every(part), np.union1d(data.ids, [0]))
    assert len(unused) > 10
    assert not torch.allclose(last[unused], first[unused], atol=1e-3)  # they decayed


def test_an_evaluation_sees_every_word_as_far_as_training_has_come(checkout: Path) -> None:
    model = new_head.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK, "linear").eval()
    ids = torch.arange(len(every(model)))[None, :60]
    words = backbones.encoder(model).get_input_embeddings()
    before = words(ids)
    with embedding_subset.only(model, np.arange(5, 20), 0):
        inside = backbones.encoder(model).get_input_embeddings()
        assert len(inside.weight) == 17
        assert inside(ids).equal(before)
        with torch.no_grad():
            inside.weight *= 0.5
        assert torch.allclose(inside(ids), before * 0.5)
    assert backbones.encoder(model).get_input_embeddings() is words
    assert torch.allclose(words(ids), before * 0.5)


@pytest.mark.parametrize("strategy", ["frozen", "full"])
def test_a_table_that_is_frozen_or_all_in_use_stays(strategy: str, checkout: Path) -> None:
    model = new_head.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK, "linear")
    strategies.groups(model, Finetune(data="d", encoder="e", strategy=strategy))
    words = backbones.encoder(model).get_input_embeddings()
    ids = np.arange(5, 20) if strategy == "frozen" else every(model)
    with embedding_subset.only(model, ids, 0):
        assert backbones.encoder(model).get_input_embeddings() is words


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_of_two_matrices_is_the_table(family: str, checkout: Path) -> None:
    source, data, tables = tiny.of_family(family, checkout / "encoder", dropout=False), few_words(), []
    for ids in (data.ids, None):
        torch.manual_seed(2)
        model = new_head.for_task(source, tiny.TASK, "linear")
        shapes.add(model, "embedding", 6)
        encoder = backbones.encoder(model)
        with (
            fitting("compress", family, Resources(acceleration=False)) as fit,
            embedding_subset.only(model, every(model) if ids is None else ids, 0) as on,
        ):
            words = encoder.get_input_embeddings().words
            assert on == (ids is not None) == isinstance(words, embedding_subset.EmbeddingSubset)
            params = Finetune(data="d", encoder="e", epochs=2, batch_size=4, weight_decay=0.5, learning_rate=1e-2)
            fit(model, losses.classification, RowBatches(data, 4, 2, 1, 0), params)
        embeddings = encoder.get_input_embeddings()
        assert isinstance(embeddings, Factorized)
        assert embeddings.words.weight.shape == (encoder.config.vocab_size, 6)
        tables.append(embeddings.words.weight.detach().clone())
    assert tables[0].allclose(tables[1], atol=1e-5)
