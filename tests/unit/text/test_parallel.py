"""Encoding by several processes."""

from pipelines.core.task import Task
from pipelines.text import parallel, tokenizer
from tests.support.kinds import batch


def test_any_number_of_processes_gives_the_same_ids(japanese: tokenizer.Tokenizer) -> None:
    task = Task("t", "single", ("a",))
    batches = [batch("single", *({"text": f"犬{i}が好き", "label": "a"} for i in range(n, n + 7))) for n in range(30)]
    by_one, by_three = (list(parallel.encoded(iter(batches), japanese, task, 16, processes)) for processes in (1, 3))
    assert len(by_one) == len(by_three) == 30
    assert all(a.equals(b) and x.tolist() == y.tolist() for (a, x), (b, y) in zip(by_one, by_three, strict=True))
