"""pretrain: train an encoder on text without labels, from random weights or from a model folder."""

from pipelines.core import json_file, params, paths, stage
from pipelines.entries.pretrain import Pretrain


def main(key: str) -> None:
    entry = params.entry("pretrain", key, Pretrain)
    from pipelines.pretraining import pretraining

    with paths.fresh_folder(paths.model(key)) as out:
        record = pretraining.pretrain(key, entry, out)
        json_file.write(paths.metrics(key), record)


if __name__ == "__main__":
    stage.run("pretrain", main)
