"""pretrain: train an encoder on text without labels, from random weights or from a model folder."""

from pipelines.core import json_file, params, paths, stage
from pipelines.entries.pretrain import Pretrain


def main(key: str) -> None:
    entry = params.entry("pretrain", key, Pretrain)
    from pipelines.pretraining import pretraining

    json_file.write(paths.metrics(key), pretraining.pretrain(key, entry, paths.model(key)))


if __name__ == "__main__":
    stage.run("pretrain", main)
