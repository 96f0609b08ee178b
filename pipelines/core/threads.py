"""The number of threads that this process computes with: the `threads` of `resources`, in every library alike."""

import os
import sys

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")

_used = 0


def used() -> int:
    """The last count given to `use`, for a library that takes it when it opens a model; 0 leaves it to the library."""
    return _used


def use(count: int) -> None:
    """Compute with `count` threads from here on; 0 leaves it to the libraries.

    A library that is imported later reads the variables. One that is imported already is told.
    """
    if not count:
        return
    global _used
    _used = count
    os.environ.update(dict.fromkeys(VARIABLES, str(count)))
    if "numpy" in sys.modules:
        import threadpoolctl

        threadpoolctl.threadpool_limits(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].set_cpu_count(count)
