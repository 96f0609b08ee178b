"""The number of threads of this process: `threads` of the section `resources`, set in every library."""

import os
import sys

from pipelines.core import container

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")

_used = 0


def used() -> int:
    """The last count given to `use`, for libraries that take it when they open a model; 0: the library decides."""
    return _used


def of_container() -> int:
    """The threads that a container leaves to a process whose number nobody has set; 0: the library decides."""
    return 0 if os.environ.get("OMP_NUM_THREADS") else container.cores()


def use(count: int) -> None:
    """Set the number of threads of this process to `count`; 0 changes nothing.

    A library that is imported later reads the environment variables. A library that is already imported is set through
    its own function.
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
