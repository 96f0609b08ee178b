"""docs/python.md: its examples run, in Python and in a shell."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support import commands, exported
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs/python.md"
FOLDERS = {"headlines": "single-onnx", "faq": "span-onnx", "names": "tagging-onnx"}
TOPICS = {
    "refund": "The money was not paid back",
    "login": "The password is not taken",
    "delivery": "The parcel is late",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the folders and files that the page names."""
    models = exported.models(tmp_path_factory)
    (checkout / "artifacts/onnx").mkdir(parents=True)
    for name, kind in FOLDERS.items():
        (checkout / "artifacts/onnx" / name).symlink_to(models / kind)
    (checkout / "encoders").symlink_to(ROOT / "encoders")
    (checkout / "titles.csv").write_text("title\n発売日が決定\n延長戦の末に勝利\n", encoding="utf-8")
    lines = [f"{text} {i},{topic}" for i in range(20) for topic, text in TOPICS.items()]
    (checkout / "tickets.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    return checkout


def test_the_examples_in_python_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = blocks("python")
    assert len(examples) == 4
    exec("\n".join(examples), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "single ('film', 'phone', 'sport') None"
    assert re.fullmatch(r"dev accuracy [01]\.\d{3} on 6 rows; trained on 54 rows from .*/encoders/mini-en", printed[-1])
    assert (place / "my-model-onnx/model.onnx").is_file()


def test_the_commands_run(place: Path) -> None:
    (block,) = blocks("sh")
    lines = block.splitlines()
    outputs = {line.split()[1]: commands.bertline(*shlex.split(line)[1:]).require(0).out for line in lines}
    assert outputs.keys() == {"predict", "answer", "tag", "embed", "fill-mask"}
    answers = [json.loads(line) for line in outputs["predict"].splitlines()]
    assert [answer["scores"].keys() for answer in answers] == [{"film", "phone", "sport"}] * 2
    assert len(json.loads(outputs["embed"])["vector"]) == 256
    assert outputs["fill-mask"].startswith("[MASK] 1\n")
