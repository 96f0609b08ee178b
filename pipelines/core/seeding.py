"""Seeds that depend on names and numbers only, so that a resumed run draws the same numbers as an unbroken one."""

import hashlib

import numpy as np


def derive(*parts: object) -> int:
    """A 63-bit seed from its parts, such as `derive(params.seed, "batches", epoch)`."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(*parts: object) -> np.random.Generator:
    """A numpy generator seeded by `derive(*parts)`."""
    return np.random.default_rng(derive(*parts))
