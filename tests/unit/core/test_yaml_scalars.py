"""Scalars of YAML: this reader's value is DVC's, or there is none."""

import random
from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML, YAMLError

from pipelines.core import resources, yaml_file
from pipelines.core.errors import UsageError

KNOWN = """
010 0o10 0x1F 0b11 1_000 on off yes no y n Yes ON true TRUE ~ null 1e4 1e-4 1.e4 .5 +.5 -.5e3 ._5 1. +1 -0 .inf 1:30
190:20:30 1:30.5 08 -010 +010 0o1_0 00 0 007.5 01e2 1E5 0x_1 nan inf .e3 1__0 685_230 1_0.5 +0x1 -0b1 -_18 7_e0
"""


def _made(count: int) -> list[str]:
    chance = random.Random(1)
    return ["".join(chance.choices("0011789.eE+-_:xobnN", k=chance.randint(1, 6))) for _ in range(count)]


def test_a_scalar_is_what_dvc_reads_or_is_refused(tmp_path: Path) -> None:
    file, agreed = tmp_path / "params.yaml", 0
    for text in [*KNOWN.split(), *_made(1500)]:
        file.write_text(f"a: {text}\n")
        try:
            ours = yaml_file.read(file, "")
        except UsageError:
            continue
        try:
            theirs = YAML(typ="safe", pure=True).load(file)
        except (YAMLError, ValueError):
            continue  # DVC says so itself
        assert repr(ours) == repr(theirs), text
        agreed += 1
    assert agreed > 200


def test_a_text_is_written_so_that_both_read_it() -> None:
    for text in [*KNOWN.split(), *_made(1500), "2024-03-01", "犬: x", "#", "a\nb", ""]:
        written = yaml_file.dump({text: [text]}, flow=True)
        for read in (yaml.load(written, yaml_file._Loader), YAML(typ="safe", pure=True).load(written)):
            assert read == {text: [text]}, written


@pytest.mark.parametrize("text", ["010", "0o10", "+010", "08", "1:30", "+.5"])
def test_a_disputed_scalar_names_its_place_and_what_to_write(tmp_path: Path, text: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(f"encode:\n  mine:\n    max_length: {text}\n")
    with pytest.raises(UsageError, match=r"line 3, column 17: .*DVC.*; write text in quotes, and a number in decimal"):
        yaml_file.read(file, "")
    file.write_text(f"encode:\n  mine:\n    max_length: '{text}'\n")
    assert yaml_file.read(file, "")["encode"]["mine"]["max_length"] == text


def test_words_that_are_truths_in_yaml_1_1_alone_are_texts(tmp_path: Path) -> None:
    """`gate: off` and `acceleration: off` stand in params files; DVC reads the text, and so does this reader."""
    file, words = tmp_path / "params.yaml", "off OFF on yes Yes no NO y n"
    file.write_text("".join(f"{word}: {word}\n" for word in words.split()) + "right: true\nwrong: False\n")
    expected = {word: word for word in words.split()} | {"right": True, "wrong": False}
    assert yaml_file.read(file, "") == expected == YAML(typ="safe", pure=True).load(file)


def test_a_key_that_is_true_or_false_takes_such_a_word(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    for word, truth in ("off", False), ("No", False), ("on", True), ("YES", True), ("false", False):
        file.write_text(f"resources: {{acceleration: {word}}}\n")
        assert resources.read(file=file).acceleration is truth
    file.write_text("resources: {acceleration: perhaps}\n")
    with pytest.raises(UsageError, match="acceleration: 'perhaps': input should be a valid boolean"):
        resources.read(file=file)
