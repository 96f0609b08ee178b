"""Measure how far a row's outputs depend on the rows beside it, in batches of random sequences."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipelines.inference.predictor import Predictor

LONGEST = 64  # tokens of a random sequence; each length from 2 to this is equally likely


def largest_difference(
    predictor: Predictor, sequences: int = 24, partitions: int = 4, seed: int = 0, alone: Predictor | None = None
) -> float:
    """The largest difference of a number of a sequence's outputs between the sequence alone and in a batch.

    The sequences are split at random into requests, `partitions` times. 0.0 means that all bits are equal.

    Args:
        alone: the predictor that runs a sequence alone; by default `predictor`.
        sequences: the number of random sequences.
        partitions: how often they are shuffled and split.
        seed: of the random ids, lengths and splits.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, min(LONGEST, predictor.max_length) + 1, sequences)
    ids = [rng.integers(0, predictor.tokenizer.vocab_size, length) for length in lengths]
    single = [(alone or predictor).forward([_request([sequence])])[0][0] for sequence in ids]
    apart = [0.0]
    for _ in range(partitions):
        for numbers in _parts(rng.permutation(sequences), rng):
            (outputs,) = predictor.forward([_request([ids[i] for i in numbers])])
            for i, output in zip(numbers, outputs, strict=True):
                real = slice(lengths[i] if output.ndim == 2 else None)  # outputs at padding are not used
                apart.append(float(np.abs(output[real] - single[i][real]).max()))
    return max(apart)


def _parts(order: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """`order` in one to six parts of random sizes."""
    cuts = rng.choice(len(order) - 1, rng.integers(0, min(6, len(order))), replace=False) + 1
    yield from np.split(order, np.sort(cuts))


def _request(sequences: list[np.ndarray]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"input_ids": pa.array(sequences, pa.list_(pa.uint32()))})
