"""Near duplicates: rows that share most of their character 5-grams, by MinHash (Broder 1997) in datasketch's LSH."""

import hashlib
from typing import Any

SIMILARITY = 0.8  # Jaccard
NGRAM = 5
MAX_ROWS = 5_000  # only the first rows of a split are compared: a MinHash takes about a millisecond
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
        from datasketch import MinHash, MinHashLSH

        if self._index is None:
            self._index = MinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS)
        text = text[:MAX_CHARACTERS].lower()
        grams = {text[i : i + NGRAM].encode() for i in range(len(text) - NGRAM + 1)}
        sketch = MinHash(num_perm=PERMUTATIONS, hashfunc=_hash)
        sketch.update_batch(list(grams))
        if self._index.query(sketch):
            self._found.append(row_id)
        self._index.insert(str(self.rows), sketch)
        self.rows += 1

    def found(self) -> list[str]:
        """Ids of rows that are similar to an earlier one, in the rows' order."""
        return self._found


def _hash(gram: bytes) -> int:
    """A hash of 32 bits."""
    return int.from_bytes(hashlib.blake2b(gram, digest_size=4).digest(), "little")
