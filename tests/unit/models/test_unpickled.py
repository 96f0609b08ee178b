"""A model that came to a process in which none of its class was built gives hidden states there."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.checkpoints import new_head
from tests.support import tiny
from tests.support.places import ROOT

OPENED = """
import pickle, sys, torch
from pathlib import Path
from pipelines.models import unpickled
model = pickle.loads(Path(sys.argv[1]).read_bytes())
ids = torch.tensor([[2, 7, 3]])
try:
    model(input_ids=ids)
except TypeError:
    print("not yet")
before = torch.get_rng_state()
unpickled.note(model)
assert torch.get_rng_state().equal(before)
assert not any(p.is_meta for p in model.parameters())
print(model(input_ids=ids).logits.shape[1])
"""


def test_a_sum_of_layers_is_read_in_another_process(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = tiny.of_family("bert", checkout / "encoder")
    model = new_head.for_task(source, tiny.TASK, "linear", features="weighted_sum")
    Path("model.pkl").write_bytes(pickle.dumps(model))

    process = subprocess.run([sys.executable, "-c", OPENED, "model.pkl"], capture_output=True, text=True, check=False)
    assert "not yet" in process.stdout, "transformers does it by itself now: unpickled.py is needed no more"
    assert process.stdout == "not yet\n3\n", process.stderr
