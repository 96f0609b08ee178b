"""The threads that run the models of a service."""

from concurrent.futures import ThreadPoolExecutor

from pipelines.core import cpu


class ModelThreads(ThreadPoolExecutor):
    """Threads that all models share, one batch a thread.

    Attributes:
        count: the number of threads, by default one for each core that this process may use.
        running: the number of batches that run now. The event loop alone changes it.
    """

    def __init__(self, count: int = 0) -> None:
        self.count, self.running = count or cpu.cores(), 0
        super().__init__(self.count, thread_name_prefix="model")
