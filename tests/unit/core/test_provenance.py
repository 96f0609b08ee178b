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


def test_no_two_folders_have_one_digest(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    for place in (folder, elsewhere):
        place.mkdir()
        (place / "weights").write_text("1")
    whole = provenance.content_digest(folder)
    assert whole == provenance.content_digest(elsewhere)
    name = f"a\n{provenance.sha256(folder / 'weights')}  weights"
    (folder / name).write_text("")  # the digest of `a` and `weights` would be that of this file
    with pytest.raises(InputError, match=r"model: '.*' has a control character in its name; rename it$"):
        provenance.content_digest(folder)
    (folder / name).unlink()
    (folder / "champion").symlink_to(elsewhere)
    with pytest.raises(InputError, match=r"model/champion: a link to a folder, whose files no digest covers; put"):
        provenance.content_digest(folder)
    assert provenance.digest(folder)  # an input of one's own may have linked folders
    (folder / "champion").unlink()
    (folder / "weights").unlink()
    (folder / "weights").symlink_to(elsewhere / "weights")  # as a cache of DVC or of the hub has it
    assert provenance.content_digest(folder) == whole
    (tmp_path / "linked").symlink_to(folder)
    assert provenance.content_digest(tmp_path / "linked") == whole
