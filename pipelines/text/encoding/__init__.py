"""The encoding of each kind of rows as token ids; `for_kind` returns its module."""

from types import ModuleType

import numpy as np
import pyarrow as pa

from pipelines.core.errors import UsageError, choices

# the sequences of rows, and for each row whether a text of it was cut, bool (R,)
Encoded = tuple[pa.RecordBatch, np.ndarray]


def for_kind(kind: str) -> ModuleType:
    """The module whose `encode` takes rows of `kind`."""
    from pipelines.text.encoding import choice, document, positive_pair, sequence, span, tagging

    modules = dict.fromkeys(("single", "pair", "regression"), sequence)
    modules |= {"span": span, "tagging": tagging, "choice": choice, "text": document, "positive_pair": positive_pair}
    if kind not in modules:
        raise UsageError(choices("kind", kind, modules))
    return modules[kind]
