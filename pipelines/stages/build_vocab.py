"""build_vocab: learn a sub-word vocabulary from rows."""

from pipelines.core import params, paths, stage
from pipelines.entries.build_vocab import BuildVocab
from pipelines.text import build_vocab_entry


def main(key: str) -> None:
    entry = params.entry("build_vocab", key, BuildVocab)
    with paths.fresh_folder(paths.vocab(key)) as out:
        build_vocab_entry.learn(key, entry, out)


if __name__ == "__main__":
    stage.run("build_vocab", main)
