"""Change an input in one to three places: its bytes, its text, or the tree of values that it writes."""

import contextlib
import copy
import json
import random
from collections.abc import Callable
from typing import Any

import yaml

Tree = Any  # what JSON and YAML write: mappings, lists, texts, numbers
# what stands where another value is expected
ODD: tuple[Tree, ...] = (
    None, True, False, 0, 1, -1, -5, 1.5, -0.0, 10**30, 10**400, 1e308, float("nan"), float("inf"), "", " ", "x", "\0",
    "../../x", "x; touch F #", "a b", "日本", "1_0", "true", "null", "NaN", "1e999", "0x10", "x" * 5000, "[SEP]",
    [], [[]], {}, [{}], {"a": 1}, ["x"], [None], [1, "x"], {"": ""},
)  # fmt: skip
SNIPPETS = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"\n\n", b"\t", b'"', b"'", b",", b"{", b"}", b"[",
    b"]", b":", b"- ", b"#", b"&a [*a]", b"*b", b"!!int abc", b"!!python/object:os.system", b"2020-13-45",
    b"2020-01-02", b"<<: 3", b"? [a]: b", b"!!set {a}", b"!!binary aGk=", b"---\n", b"%YAML 9\n", b"\\ud800", b"NaN",
    b"1e999", b"-0", b"[" * 4000, b"{a: " * 2000, b"9" * 400, b"a" * 70_000, "日本".encode(), "\u2028".encode(),
)  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, inserted, removed, doubled, swapped, or cut off."""
    mutant = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(mutant) + 1), rng.choice((1, 1, 2, 8, 64, 1000))
        way = rng.randrange(7)
        if way == 0 and mutant:
            mutant[at % len(mutant)] ^= 1 << rng.randrange(8)
        elif way == 1:
            mutant[at:at] = rng.choice(SNIPPETS)
        elif way == 2:
            del mutant[at : at + size]
        elif way == 3:
            mutant[at:at] = mutant[at : at + size]
        elif way == 4:
            del mutant[at:]
        elif way == 5:
            mutant[at : at + size] = bytes(rng.randrange(256) for _ in range(min(size, 8)))
        else:
            other = rng.randrange(len(mutant) + 1)
            mutant[at : at + size], mutant[other : other + size] = mutant[other : other + size], mutant[at : at + size]
    return bytes(mutant)


def changed(tree: Tree, rng: random.Random) -> Tree:
    """A copy with some values replaced, removed, doubled, swapped, renamed or nested."""
    holder_of_root = [copy.deepcopy(tree)]
    for _ in range(rng.randint(1, 2)):
        places = list(_places(holder_of_root))[1:] or list(_places(holder_of_root))
        holder, key = rng.choice(places)
        rng.choice(WAYS)(holder, key, rng, places)
    return holder_of_root[0] if holder_of_root else None


def sized(tree: Tree, sizes: tuple[Tree, ...], rng: random.Random) -> Tree:
    """A copy with one number replaced by one of `sizes`, or by a product with one."""
    holder_of_root = [copy.deepcopy(tree)]
    numbers = [(holder, key) for holder, key in _places(holder_of_root) if type(holder[key]) in (int, float)]
    if numbers:
        holder, key = rng.choice(numbers)
        size = copy.deepcopy(rng.choice(sizes))
        holder[key] = holder[key] * size if type(size) is int and rng.random() < 0.3 else size
    return holder_of_root[0]


def _places(holder: Any) -> Any:
    """Every (mapping or list, key or number) of a tree."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])


def _replace(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    holder[key] = copy.deepcopy(rng.choice(ODD))


def _remove(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    if isinstance(holder, dict):
        names = (f"{key}s", str(key)[:-1], "../../x", "x; touch F #", "", 1, None, True, "日本", "x" * 300, "a/b", ".")
        holder[rng.choice(names)] = holder.pop(key)


def _swap(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    other, place = rng.choice(places)
    with contextlib.suppress(KeyError, IndexError):
        holder[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(holder[key])


def _double(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[f"{key}2"] = copy.deepcopy(holder[key])


def _nest(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    for _ in range(rng.choice((1, 1, 3, 40))):
        holder[key] = rng.choice(([holder[key]], {"x": holder[key]}))


def _count(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    value = holder[key]
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        holder[key] = rng.choice((-value, value + 1, value - 1, value * 1000, float(value), str(value), value / 3))
    else:
        _replace(holder, key, rng, places)


def _letters(holder: Any, key: Any, rng: random.Random, places: list) -> None:
    value = holder[key]
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        holder[key] = value[:at] + rng.choice(("\0", "\ud800", "[SEP]", "\u0301", "ﷺ", "　", "x" * 3000)) + value[at:]
    else:
        _replace(holder, key, rng, places)


WAYS: tuple[Callable[..., None], ...] = (_replace, _replace, _remove, _rename, _swap, _double, _nest, _count, _letters)


def as_json(tree: Tree, rng: random.Random) -> bytes:
    """The tree as JSON; at times with a name twice, which a tree cannot have."""
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5, default=str)
    if rng.random() < 0.05 and '": ' in text:
        text = text.replace("{", '{"id": 1, "id": 2, ', 1)
    return text.encode("utf-8", "surrogatepass")


def as_yaml(tree: Tree) -> bytes:
    try:
        return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, RecursionError):
        return repr(tree).encode("utf-8", "surrogatepass")
