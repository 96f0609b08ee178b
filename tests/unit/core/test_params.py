"""params.yaml: what is wrong is said in one sentence, with the key and the choices."""

from pathlib import Path

import pytest

from pipelines.core import params
from pipelines.core.errors import UsageError
from tests.conftest import ROOT

GOOD = """
prepare:
  a: {corpus: custom, source: x}
encode:
  a: {task: a, vocab: v, max_length: 16}
finetune:
  run: {data: a, encoder: e}
"""
WRONG = {
    "a misspelt section": (GOOD + "\nfintune: {}\n", "no section 'fintune' (did you mean 'finetune'?)"),
    "a misspelt key": (
        GOOD.replace("encoder: e", "encoder: e, learning_rat: 1"),
        "finetune.run: no key 'learning_rat'",
    ),
    "a wrong type": (GOOD.replace("encoder: e", "encoder: e, epochs: many"), "finetune.run.epochs: 'many'"),
    "out of range": (GOOD.replace("encoder: e", "encoder: e, learning_rate: -1"), "finetune.run.learning_rate: -1"),
    "a missing key": (GOOD.replace("data: a, ", ""), "finetune.run.data: missing"),
    "a wrong choice": (GOOD.replace("encoder: e", "encoder: e, strategy: half"), "'full', 'top_k' or 'frozen'"),
    "an unknown reference": (
        GOOD.replace("data: a", "data: b"),
        "finetune.run.data: no encode entry 'b'; there are: a",
    ),
    "an unknown run": (GOOD + "evaluate: {other: {task: a}}", "evaluate.other: no finetune or compress entry 'other'"),
    "a key that stands twice": (GOOD + "encode: {}", "'encode' stands twice"),
    "no mapping": ("- a\n- b\n", "must map section names"),
    "no YAML": ("a: [", "not readable as YAML"),
    "an entry that is no mapping": (GOOD + "export: {run: 3}", "export.run: 3 is not a mapping"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_sentence(name: str, checkout: Path) -> None:
    text, sentence = WRONG[name]
    (checkout / "params.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        params.check()
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("params.yaml")
    assert "\n" not in str(caught.value)


def test_no_file_is_one_sentence(checkout: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        params.check()


@pytest.mark.parametrize(
    "file", [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))], ids=lambda p: p.name
)
def test_the_ready_made_files_are_right(file: Path) -> None:
    found = params.check(file)
    assert found["evaluate"] or found["pretrain"]  # a file trains something to be scored, or an encoder
