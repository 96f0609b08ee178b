"""encode: turn rows into token ids, as Parquet."""

from pipelines.core import params, paths, resources, stage
from pipelines.entries.encode import Encode
from pipelines.text import encode_entry


def main(key: str) -> None:
    entry = params.entry("encode", key, Encode)
    with paths.fresh_folder(paths.encoded(key)) as out:
        encode_entry.encode(key, entry, out, resources.read("encode", key).threads)


if __name__ == "__main__":
    stage.run("encode", main)
