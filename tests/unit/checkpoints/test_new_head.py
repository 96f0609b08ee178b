"""A model fine-tuned before gives its encoder to the next task, and nothing of its head."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head, pretrained
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.models import backbones, heads
from pipelines.models.quantization import int8
from pipelines.text import tokenizer
from tests.support import tiny
from tests.support.kinds import FAMILIES, TASKS

IDS = {"input_ids": torch.tensor([[2, 7, 8, 9, 3]]), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
IDS |= {"token_type_ids": torch.tensor([[0, 0, 0, 1, 1]])}


def tuned(family: str, folder: Path, task: Task, head: str) -> tuple[torch.nn.Module, Path]:
    """A model with a head for `task`, and its folder."""
    source = tiny.of_family(family, folder / "encoder")
    model = new_head.for_task(source, task, head)
    (folder / "tuned").mkdir()
    model_folder.save(model, folder / "tuned", source, task)
    return model, folder / "tuned"


@pytest.mark.parametrize("then", ["native", "linear"])
@pytest.mark.parametrize("head", ["native", "linear"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_task_starts_from_the_encoder_with_a_head_of_its_own(
    family: str, head: str, then: str, checkout: Path
) -> None:
    before, folder = tuned(family, checkout, TASKS["single"], head)
    model_folder.check_fit(folder, tokenizer.load(folder).vocab_size, 32)
    after = new_head.for_task(folder, TASKS["pair"], then).eval()
    assert heads.outputs(after, "pair", IDS).shape == (1, len(TASKS["pair"].labels))
    assert after.config.id2label == {0: "no", 1: "yes"}
    learned = backbones.encoder(before).state_dict()
    states = backbones.encoder(after).state_dict()
    assert {backbones.backbone(before).pooler} >= {name.split(".")[0] for name in learned.keys() ^ states.keys()}
    assert all(tensor.equal(states[name]) for name, tensor in learned.items() if name in states)
    (checkout / "again").mkdir()
    model_folder.save(after, checkout / "again", folder, TASKS["pair"])
    again, _ = model_folder.load_tuned(checkout / "again")
    torch.testing.assert_close(heads.outputs(again, "pair", IDS), heads.outputs(after, "pair", IDS))


@pytest.mark.parametrize("head", ["native", "linear"])
def test_after_labels_come_spans_and_after_a_number_labels(head: str, checkout: Path) -> None:
    _, folder = tuned("bert", checkout, TASKS["single"], head)
    assert heads.outputs(new_head.for_task(folder, TASKS["span"]), "span", IDS).shape == (1, 5, 2)
    (checkout / "other").mkdir()
    _, folder = tuned("bert", checkout / "other", TASKS["regression"], head)
    assert new_head.for_task(folder, TASKS["single"]).config.problem_type is None


def test_the_old_head_is_not_kept_for_the_same_labels_either(checkout: Path) -> None:
    before, folder = tuned("bert", checkout, tiny.TASK, "native")
    after = new_head.for_task(folder, tiny.TASK)
    assert not torch.equal(before.classifier.weight, after.classifier.weight)  # type: ignore[operator]


@pytest.mark.parametrize(("labels", "dtype"), [(3, torch.float32), (5, torch.float32), (3, torch.bfloat16)])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_of_another_tool_is_not_kept_either(
    family: str, labels: int, dtype: torch.dtype, checkout: Path
) -> None:
    """With as many labels or with others; the encoder stays, and the seed decides the head. Training is in fp32."""
    folder = tiny.of_family(family, checkout / "encoder")
    before = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=labels).to(dtype)
    inside = {id(p) for p in backbones.encoder(before).parameters()}
    with torch.no_grad():
        for parameter in before.parameters():
            parameter += torch.randn_like(parameter)
    before.save_pretrained(folder)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(new_head.for_task(folder, TASKS["single"]).state_dict())
    for name, parameter in before.named_parameters():
        assert drawn[0][name].dtype == torch.float32, name
        assert drawn[0][name].equal(parameter.float()) == (id(parameter) in inside), name
        assert drawn[0][name].equal(drawn[1][name])
    assert any(not drawn[0][name].equal(tensor) for name, tensor in drawn[2].items())


def test_a_layer_of_the_pretraining_head_stays(checkout: Path) -> None:
    """ModernBERT's heads share one layer, which transformers takes from the masked-token head."""
    folder = tiny.of_family("modernbert", checkout / "encoder")
    before = AutoModelForMaskedLM.from_pretrained(folder)
    before.save_pretrained(folder)
    assert new_head.for_task(folder, TASKS["single"]).head.dense.weight.equal(before.head.dense.weight)


def test_what_cannot_go_on_is_one_sentence(checkout: Path) -> None:
    _, folder = tuned("bert", checkout, tiny.TASK, "linear")
    with pytest.raises(InputError, match=r"tuned: a fine-tuned model, without a head to pretrain; start from the enc"):
        pretrained.start(folder, {}, AutoModel, tokenizer.load(folder), seed=1)
    (checkout / "small").mkdir()
    model_folder.save(int8.quantize(model_folder.load_tuned(folder)[0]), checkout / "small", folder, tiny.TASK)
    with pytest.raises(
        InputError, match=r"small: fine-tuning cannot start from weights in the format int8; start from"
    ):
        model_folder.check_fit(checkout / "small", tokenizer.load(folder).vocab_size, 32)
