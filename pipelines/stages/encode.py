"""encode: turn rows into token ids, as Parquet."""

from pipelines.core import params, paths, resources, stage
from pipelines.entries.encode import Encode
from pipelines.text import encoding_rows


def main(key: str) -> None:
    entry = params.entry("encode", key, Encode)
    with paths.fresh_folder(paths.encoded(key)) as out:
        encoding_rows.encode(key, entry, out, resources.read("encode", key).threads)


if __name__ == "__main__":
    stage.run("encode", main)
