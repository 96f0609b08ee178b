"""What `bertline why` says of a stage that is up to date."""

from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo

from pipelines.graph import executor, why


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        ("a", "its command, 1 param, 1 file or folder that it reads and 1 output are"),
        ("ab", "its command, 2 params, 2 files and folders that it reads and 2 outputs are"),
    ],
)
def test_one_is_singular(names: str, counts: str, checkout: Path) -> None:
    Repo.init(no_scm=True).close()
    for name in names:
        Path(name).write_text(name)
    outs = [f"{name}.txt" for name in names]
    values = ["resources.threads", "resources.gpus"][: len(names)]
    stage = {"cmd": f"touch {' '.join(outs)}", "deps": [*names], "params": values, "outs": outs}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"make": stage}}))
    Path("params.yaml").write_text(yaml.safe_dump({"resources": {"threads": 1, "gpus": 0}}))
    executor.run()
    assert why.why("make") == [f"make is up to date: {counts} as in dvc.lock"]
