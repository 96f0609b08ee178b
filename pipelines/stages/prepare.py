"""prepare: parse a corpus into readable rows, and check them."""

import os

from pipelines.core import params, paths, stage
from pipelines.data import prepare_entry
from pipelines.entries.prepare import Prepare


def main(key: str, strict: bool = False) -> None:
    entry = params.entry("prepare", key, Prepare)
    with paths.fresh_folder(paths.rows(key)) as out:
        prepare_entry.prepare(key, entry, out, strict or bool(os.environ.get("BERTLINE_STRICT")))


if __name__ == "__main__":
    stage.run("prepare", main, strict="fail if an answer is not the text at its position")
