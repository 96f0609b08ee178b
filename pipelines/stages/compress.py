"""compress: make a smaller model from a fine-tuned one."""

from pipelines.core import params, paths, resources, stage
from pipelines.entries.compress import Compress


def main(key: str) -> None:
    entry = params.entry("compress", key, Compress)
    from pipelines.compression import compress_entry

    compress_entry.compress(key, entry, paths.model(key), resources.read("compress", key))


if __name__ == "__main__":
    stage.run("compress", main)
