"""Near duplicates: rows that share most of their character 5-grams, by MinHash (Broder 1997) in datasketch's LSH."""

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

SIMILARITY = 0.8  # Jaccard
NGRAM = 5
MAX_ROWS = 5_000  # only the first rows of a split are compared: a MinHash takes about a millisecond
MAX_COMPARED = 50_000  # texts that are compared where rows are divided into splits
MAX_CHARACTERS = 2_000  # of a text that are compared
PERMUTATIONS = 64


class Near:
    """A collection of texts that finds those similar to an earlier one."""

    def __init__(self) -> None:
        self.rows = 0
        self._index: Any = None
        self._found: list[str] = []

    def add(self, row_id: str, text: str) -> None:
        if self.rows == MAX_ROWS or len(text) < NGRAM:
            return
        from datasketch import MinHashLSH

        if self._index is None:
            self._index = MinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS)
        sketch = _sketch(text)
        if self._index.query(sketch):
            self._found.append(row_id)
        self._index.insert(str(self.rows), sketch)
        self.rows += 1

    def found(self) -> list[str]:
        """Ids of rows that are similar to an earlier one, in the rows' order."""
        return self._found


def _sketch(text: str) -> Any:
    """The MinHash of a text's 5-grams, in lower case."""
    from datasketch import MinHash

    text = text[:MAX_CHARACTERS].lower()
    grams = {text[i : i + NGRAM].encode() for i in range(len(text) - NGRAM + 1)}
    sketch = MinHash(num_perm=PERMUTATIONS, hashfunc=_hash)
    sketch.update_batch(list(grams))
    return sketch


def _hash(gram: bytes) -> int:
    """A hash of 32 bits."""
    return int.from_bytes(hashlib.blake2b(gram, digest_size=4).digest(), "little")


def plain(text: str) -> str:
    """A text without what does not make it another: case, width, and white space at its ends and in a row."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def together(texts: Sequence[str], groups: Sequence[str] = ()) -> list[int]:
    """A number for each text; equal and similar texts, and those with an equal value in `groups`, have the same one.

    "" in `groups` stands for no group.
    Similar texts are looked for among the first MAX_COMPARED different ones, in the order of their characters.
    """
    parent = list(range(len(texts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[str, str], int] = {}
    for kind, keys in (("text", texts), ("group", groups)):
        for i, key in enumerate(keys):
            if kind == "text" or key:
                parent[root(i)] = root(first.setdefault((kind, key), i))
    distinct = sorted(text for kind, text in first if kind == "text")
    for one, other in _similar(distinct[:MAX_COMPARED]):
        parent[root(first["text", one])] = root(first["text", other])
    return [root(i) for i in range(len(texts))]


def similar_to(texts: Sequence[str], others: Sequence[str]) -> list[bool]:
    """For each text, whether it is similar to one of the others, of which the first MAX_COMPARED are compared."""
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS)
    sketches = {text: _sketch(text) for text in [*dict.fromkeys(others)][:MAX_COMPARED] if len(text) >= NGRAM}
    for text, sketch in sketches.items():
        index.insert(text, sketch)

    def is_similar(text: str) -> bool:
        sketch = _sketch(text)
        return any(sketch.jaccard(sketches[other]) >= SIMILARITY for other in index.query(sketch))

    return [text in sketches or (len(text) >= NGRAM and is_similar(text)) for text in texts]


def _similar(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of texts that share most of their character 5-grams."""
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS)
    sketches: dict[str, Any] = {}
    for text in texts:
        if len(text) >= NGRAM:
            sketches[text] = _sketch(text)
            for other in index.query(sketches[text]):
                if sketches[text].jaccard(sketches[other]) >= SIMILARITY:
                    yield text, other
            index.insert(text, sketches[text])
