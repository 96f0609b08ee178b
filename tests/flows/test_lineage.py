"""What a version was made of, its teacher's version too; and versions of other tools are in nobody's way."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import mlflow
import pytest
import yaml
from mlflow import MlflowClient

from pipelines.core import paths
from pipelines.core.errors import InputError
from pipelines.entries.evaluate import Evaluate
from pipelines.lifecycle import lineage, promotion, registration
from pipelines.tracking import registry, store

ROWS, TEACHER, STUDENT = "0" * 32, f"{'1' * 32}.dir", f"{'2' * 32}.dir"


@pytest.fixture
def client(checkout: Path) -> Iterator[MlflowClient]:
    """A store, and the lock of a student that was compressed from a teacher."""
    yield store.connect()
    mlflow.set_tracking_uri(None)


def stage(read: dict[str, str], wrote: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    sides = {"deps": read, "outs": wrote}
    return {side: [{"path": path, "md5": md5} for path, md5 in digests.items()] for side, digests in sides.items()}


def add(client: MlflowClient, name: str, tags: dict[str, str]) -> registry.Version:
    if name not in {model.name for model in client.search_registered_models()}:
        client.create_registered_model(name)
    created = client.create_model_version(name, "s3://nowhere/m", tags=tags, await_creation_for=0)
    return registry.version(name, int(created.version))


def test_a_version_names_its_teachers_version_even_after_that_is_deleted(client: MlflowClient) -> None:
    teacher, student = str(paths.model("big")), str(paths.model("small"))
    lock = {
        "finetune@big": stage({"rows": ROWS}, {teacher: TEACHER}),
        "compress@small": stage({teacher: TEACHER}, {student: STUDENT}),
        "export@small": stage({student: STUDENT}, {str(paths.onnx("small")): "3" * 32}),
    }
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": lock}))
    Path("params.yaml").write_text("finetune: {big: {}}\ncompress: {small: {}}\nexport: {small: {}}\n")
    assert json.loads(registration.provenance_tags("small")["teachers"]) == []
    early = add(client, "early", registration.provenance_tags("small"))
    add(client, "headlines", {"md5": "another"})
    add(client, "headlines", registration.provenance_tags("big"))
    late = add(client, "late", registration.provenance_tags("small"))
    made_from = [{"model": "headlines", "version": 2}]
    assert json.loads(late.tags["teachers"]) == made_from
    assert [lineage.of_model(f"{version.name}/1")["parents"] for version in (early, late)] == [made_from, made_from]
    assert "made from headlines version 2" in lineage.plain_model(lineage.of_model("late/1"))
    assert lineage.of_model("late@1") == lineage.of_model("late/1"), "as other commands write a version"
    client.delete_registered_model("headlines")
    assert lineage.of_model("late/1")["parents"] == made_from
    assert lineage.of_model("early/1")["parents"] == []


def test_a_version_of_another_tool_is_skipped(client: MlflowClient, checkout: Path) -> None:
    (checkout / "foreign.py").write_text(
        "import mlflow\n"
        "class Echo(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input: list[str], params=None):\n"
        "        return model_input\n"
        "mlflow.models.set_model(Echo())\n"
    )
    with mlflow.start_run():
        mlflow.pyfunc.log_model(
            name="model", python_model="foreign.py", registered_model_name="echo", pip_requirements=[]
        )
    foreign = registry.version("echo", 1)
    sentence = "echo version 1 was not registered by `bertline retrain`"
    measure = partial(promotion.measure, entry=Evaluate(task="t"))
    for ask in (promotion.require_answer, registry.example, registry.folder, measure):
        with pytest.raises(InputError, match=sentence):
            ask(foreign)
    with pytest.raises(InputError, match="it was not registered by `bertline retrain`"):
        lineage.of_model("echo/1")

    stages = [
        {"stage": "prepare@it", "run": "", "read": {"raw": ROWS}, "wrote": {"rows": "4" * 32}, "params": {"a": 1}}
    ]
    add(client, "ours", {"lineage": json.dumps(stages), "verdict": "{", "teachers": "nobody"})
    for wrong in ("{", "{}", '[{"stage": 1}]', "[[]]"):
        broken = add(client, "broken", {"lineage": wrong})
        with pytest.raises(InputError, match=f"broken version {broken.version} has no lineage"):
            lineage.of_model(f"broken/{broken.version}")
    assert lineage.of_data(ROWS)["versions"] == [{"model": "ours", "version": 1, "champion": False}]
    described = lineage.of_model("ours/1")
    assert (described["stages"], described["verdict"], described["parents"]) == (stages, {}, [])
