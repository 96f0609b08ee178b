"""A file of keys of receipts: made for its owner alone, one key added at a time, and every wrong line named."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.inference import receipt_keys
from pipelines.inference.receipt_keys import ReceiptKeys


def test_a_key_is_added_to_a_file_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    file = tmp_path / "a/receipts.key"
    first = receipt_keys.make(file)
    assert (first.name, file.stat().st_mode & 0o777) == ("key-1", 0o600)
    file.write_text(file.read_text().rstrip("\n"))  # as an editor may leave it
    second = receipt_keys.make(file, "2027")
    keys = ReceiptKeys.read(file)
    assert (keys.current, keys.require(first.id), keys.find("x")) == (second, first, None)
    assert first.id != second.id
    assert first.secret.hex() not in repr(first)
    with pytest.raises(InputError, match=f"no key 'x'; there are: {first.id}, {second.id}"):
        keys.require("x")


def test_a_name_that_is_none_or_taken_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "receipts.key"
    receipt_keys.make(file, "2027")
    with pytest.raises(UsageError, match="the name 2027 is taken; a key is never replaced"):
        receipt_keys.make(file, "2027")
    with pytest.raises(UsageError, match="a name has letters"):
        receipt_keys.make(file, "a b")
    with pytest.raises(InputError, match="the key cannot be written"):
        receipt_keys.make(tmp_path)
    with pytest.raises(InputError, match="the key cannot be written"):
        receipt_keys.make(file / "below")


def test_keys_that_are_made_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    file, count = tmp_path / "receipts.key", 8
    with ThreadPoolExecutor(count) as pool:
        made = list(pool.map(lambda _: receipt_keys.make(file).name, range(count)))
    assert sorted(made) == sorted(ReceiptKeys.read(file).names) == [f"key-{n}" for n in range(1, count + 1)]


def test_an_empty_file_that_others_may_read_gets_no_key(tmp_path: Path) -> None:
    file = tmp_path / "receipts.key"
    file.touch(0o644)
    with pytest.raises(InputError, match="other users may read the keys"):
        receipt_keys.make(file)
    assert file.read_bytes() == b""


def test_a_file_that_is_none_is_refused_with_every_line_but_no_key(tmp_path: Path) -> None:
    file = tmp_path / "receipts.key"
    with pytest.raises(InputError, match=r"receipts\.key: the keys cannot be read"):
        ReceiptKeys.read(file)
    receipt_keys.make(file, "first")
    os.chmod(file, 0o640)
    with pytest.raises(InputError, match="other users may read the keys; run `chmod 600"):
        ReceiptKeys.read(file)
    os.chmod(file, 0o600)
    file.write_text(f"# keys\na b c\nx {'0' * 63}\n\nx\n{file.read_text()}first {'1' * 64}\n")
    with pytest.raises(InputError) as raised:
        ReceiptKeys.read(file)
    assert [line.split(": ", 1)[1] for line in str(raised.value).splitlines()] == [
        "line 2: NAME KEY is expected; a name has letters, digits, _, - and . only",
        "line 3: the key of x is not 64 hexadecimal digits",
        "line 5: NAME KEY is expected; a name has letters, digits, _, - and . only",
        "line 7: the name first occurs twice",
    ]
    assert "0" * 63 not in str(raised.value)
    file.write_text("# none\n")
    with pytest.raises(InputError, match="no keys; `bertline receipt-key"):
        ReceiptKeys.read(file)
