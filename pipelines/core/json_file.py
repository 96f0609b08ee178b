"""Read and write JSON files; errors say in one sentence what is wrong, and where."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError, NoFileError, UnreadableError
from pipelines.core.paths import fresh_file


def read(path: Path, encoding: str = "utf-8-sig") -> Any:
    """The content of a JSON file, of any type. Raises InputError, which names the file and the line."""
    if not path.is_file():
        raise NoFileError(f"{path}: no such file")
    return decoded(path, path.read_bytes(), encoding)


def decoded(path: Path, content: bytes, encoding: str = "utf-8-sig") -> Any:
    """The value of the bytes of a JSON file. Raises InputError, which names the file and the line."""
    try:
        return parsed(content.decode(encoding))
    except UnicodeDecodeError as error:
        name = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise UnreadableError(path, f"{path}: byte {error.start}", name) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def parsed(text: str) -> Any:
    """The value of a JSON text.

    Raises ValueError if it is not JSON, has NaN or a number beyond all doubles, or repeats a name within an object.
    """
    return _DECODER.decode(text)


def mapping(path: Path) -> dict[str, Any]:
    """The content of a JSON file that must be an object, such as a config or a task."""
    content = read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: it must map names to values")
    return content


def cached(path: Path) -> dict[str, Any]:
    """The object in a cache file; {} if the file is missing or invalid.

    A folder at `path` is removed, since the file could not be written.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        return mapping(path)
    except (InputError, OSError):
        return {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits[:20]} is too large for a number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite)


def write(path: Path, values: Any) -> None:
    """Write `values` to `path` as JSON; an existing file is replaced atomically."""
    with fresh_file(path) as aside:
        aside.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
