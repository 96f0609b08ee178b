"""Keys of receipts: a file with a line `NAME KEY` each, of which the last one signs and all others verify."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.core import secret_file
from pipelines.core.errors import InputError, UsageError, shown

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
SIZE_BYTES = 32
FINGERPRINT = 8  # hexadecimal digits of a key's sha256 in its id


@dataclass(frozen=True)
class ReceiptKey:
    """A secret with a name."""

    name: str
    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """The name and the first digits of the secret's sha256, so that two keys with one name differ."""
        return f"{self.name}-{hashlib.sha256(self.secret).hexdigest()[:FINGERPRINT]}"


class ReceiptKeys:
    """The keys of a file."""

    def __init__(self, place: str, keys: list[ReceiptKey]) -> None:
        self.place, self._by_id = place, {key.id: key for key in keys}
        self.names, self.current = [key.name for key in keys], keys[-1]

    @classmethod
    def read(cls, path: Path) -> "ReceiptKeys":
        """The keys of a file. Raises InputError with every line that is wrong, but without its key."""
        keys, wrong = list[ReceiptKey](), list[str]()
        for number, line in enumerate(secret_file.lines(path), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            try:
                keys.append(_key(words, [key.name for key in keys]))
            except ValueError as error:
                wrong.append(f"{path}: line {number}: {error}")
        if not (keys or wrong):
            wrong.append(f"{path}: no keys; `bertline receipt-key {path}` makes one")
        if wrong:
            raise InputError("\n".join(wrong))
        return cls(str(path), keys)

    def find(self, identity: str) -> ReceiptKey | None:
        """The key with this id; None if the file does not have it."""
        return self._by_id.get(identity)

    def require(self, identity: str) -> ReceiptKey:
        """The key with this id. Raises InputError if the file does not have it."""
        if key := self.find(identity):
            return key
        raise InputError(f"{self.place}: no key {shown(identity)}; there are: {', '.join(self._by_id)}")


def _key(words: list[str], names: list[str]) -> ReceiptKey:
    """The key of a line. Raises ValueError with the problem."""
    if len(words) != 2 or not NAME.fullmatch(words[0]):
        raise ValueError("NAME KEY is expected; a name has letters, digits, _, - and . only")
    if words[0] in names:
        raise ValueError(f"the name {words[0]} occurs twice")
    if not re.fullmatch(f"[0-9a-f]{{{2 * SIZE_BYTES}}}", words[1]):
        raise ValueError(f"the key of {words[0]} is not {2 * SIZE_BYTES} hexadecimal digits")
    return ReceiptKey(words[0], bytes.fromhex(words[1]))


def make(path: Path, name: str = "") -> ReceiptKey:
    """Add a new key to the file, which is made where there is none; it signs from now on.

    Raises UsageError for a name that is none or taken, and InputError if the file cannot be used.
    """
    if name and not NAME.fullmatch(name):
        raise UsageError(f"{shown(name)}: a name has letters, digits, _, - and . only")
    with secret_file.appending(path) as append:  # two commands at once would take one name
        names = ReceiptKeys.read(path).names if secret_file.lines(path) else []
        name = name or f"key-{len(names) + 1}"
        if name in names:
            raise UsageError(
                f"{path}: the name {name} is taken; a key is never replaced, since it verifies old receipts"
            )
        key = ReceiptKey(name, secrets.token_bytes(SIZE_BYTES))
        append(f"{name} {key.secret.hex()}")
    return key
