"""Two workers without Ray: they learn what one learns, whatever the family, and see what any of them saw."""

import multiprocessing
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from pipelines.checkpoints import new_head
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.models.quantization import fake_quantization
from pipelines.objectives import bilm
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.loop import AfterStep, Job, Training, train
from tests.support import fits, letters, tiny

pytestmark = pytest.mark.slow

# family, head, features: a loss reaches every parameter of the first, and not of the others
CASES = [
    ("bert", "native", "last"),
    ("bert", "linear", "second_to_last"),
    ("albert", "linear", "last"),
    ("mobilebert", "linear", "last"),
    ("xlnet", "native", "last"),
    ("deberta-v2", "native", "last"),
]
SEED = 5  # of the order of rows: the largest input of all is in the second worker's first part
PARAMS = Fit(epochs=1, batch_size=8, optimizer="sgd", learning_rate=0.02)
IN_PARTS = Fit(epochs=1, batch_size=24, optimizer="sgd", learning_rate=0.02, accumulate=2)


def learned(model: torch.nn.Module, params: Fit, checkpoint: Path, after_step: AfterStep | None = None) -> fits.Weights:
    batches = RowBatches(fits.rows(), params.batch_size, 1, SEED, 0)
    train(Job(model, losses.classification, batches, params, None, checkpoint, 1e9, after_step=after_step), print, "x")
    return fits.weights(model)


def rounding(place: Path) -> torch.nn.Module:
    torch.manual_seed(1)
    model = new_head.for_task(place / "bert", tiny.TASK)
    by_largest = fake_quantization.ByLargest()
    fake_quantization.insert(model, by_largest, by_largest, decay=0.9)
    return model


class Sentences:
    """One batch of three random sentences: in two parts, the second worker has no row for the second one."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, step: int) -> Batch:
        return letters.sentences(rows=3, length=10)

    def fingerprint(self) -> str:
        return ""


def reading(checkpoint: Path) -> fits.Weights:
    """The weights of a language model, whose loss reads no labels, after its training."""
    model = letters.model("bilstm", bilm.auto(bilm.Params()))
    for layer in model.base_model.layers:
        layer.dropout.p = 0.0
    params = Fit(optimizer="sgd", learning_rate=1, warmup=0, accumulate=2)
    train(Job(model, losses.Pretraining(bilm.predict), Sentences(), params, None, checkpoint, 1e9), print, "x")
    return fits.weights(model)


def stopped(model: torch.nn.Module, checkpoint: Path) -> fits.Weights:
    """The curve and the number of checkpoints of a training that ends early, by scores of the first worker alone."""
    params, steps = PARAMS.model_copy(update={"patience": 1, "evaluations": 3}), []
    batches = RowBatches(fits.rows(), params.batch_size, 1, SEED, 0)
    watch, select = lambda model: {"accuracy": 0.5}, "accuracy"
    job = Job(model, losses.classification, batches, params, None, checkpoint, 1e9, watch=watch, select=select)
    training = Training(job, "x")
    training.run(steps.append)
    return {"curve": torch.tensor([step for step, _ in training.now.curve]), "checkpoints": torch.tensor(len(steps))}


def both(place: Path, checkpoints: Path) -> dict[str, fits.Weights]:
    """What is learned in each case, and what fake quantization has seen after one step of two parts."""
    weights_of = {}
    for family, head, features in CASES:
        torch.manual_seed(1)
        model = new_head.for_task(place / family, tiny.TASK, head, features=features)
        name = f"{family} {head} {features}"
        weights_of[name] = learned(model, PARAMS, checkpoints / f"{name}.pt")
    weights_of["patience"] = stopped(new_head.for_task(place / "bert", tiny.TASK), checkpoints / "patience.pt")
    weights_of["bilm"] = reading(checkpoints / "bilm.pt")
    weights_of["ranges"] = learned(rounding(place), IN_PARTS, checkpoints / "ranges.pt", fake_quantization.end_step)
    return weights_of


def worker(rank: int, place: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=2)
    torch.save(both(place, place / "of two"), place / f"{rank}.pt")
    dist.destroy_process_group()


def test_two_workers_learn_what_one_learns(tmp_path: Path) -> None:
    for family in {family for family, _, _ in CASES}:
        tiny.of_family(family, tmp_path / family, dropout=False)
    for name in ("of one", "of two"):
        (tmp_path / name).mkdir()
    alone = both(tmp_path, tmp_path / "of one")
    context = multiprocessing.get_context("spawn")
    pair = [context.Process(target=worker, args=(rank, tmp_path)) for rank in range(2)]
    for process in pair:
        process.start()
    for process in pair:
        process.join(500)
    assert [process.exitcode for process in pair] == [0, 0]
    for rank in range(2):
        learned_by_worker = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        first = next(
            name for name in learned_by_worker["ranges"] if name.endswith("inputs.extent")
        )  # nothing below it is rounded
        assert learned_by_worker.pop("ranges")[first] == alone["ranges"][first] > 0
        assert len(learned_by_worker) == len(CASES) + 2
        for case, weights in learned_by_worker.items():
            for name, tensor in weights.items():
                assert torch.allclose(tensor, alone[case][name], atol=1e-4), (case, name)
