"""The origin of an artefact, read from folders that others wrote."""

from pathlib import Path

import pytest

from pipelines.core import provenance
from pipelines.core.errors import InputError


@pytest.mark.parametrize("text", ['{"stage": "fine', "[1]", ""])
@pytest.mark.parametrize("name", [provenance.FILE, provenance.TRAINING])
def test_a_file_that_is_cut_or_no_mapping_is_one_sentence(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=name.replace(".", "[.]")) as raised:
        provenance.how(tmp_path) if name == provenance.FILE else provenance.curve(tmp_path)
    assert "\n" not in str(raised.value)


def test_what_a_file_lacks_has_a_default(tmp_path: Path) -> None:
    assert (provenance.how(tmp_path), provenance.curve(tmp_path)) == ("imported", [])
    (tmp_path / provenance.FILE).write_text('{"stage": "finetune", "params": null}')
    (tmp_path / provenance.TRAINING).write_text('{"steps": 3}')
    assert (provenance.how(tmp_path), provenance.curve(tmp_path)) == ("finetune", [])
