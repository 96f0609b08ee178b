"""finetune: train an encoder and a head on one task, with Ray Train."""

from pipelines.core import params, paths, resources, stage
from pipelines.entries.finetune import Finetune


def main(key: str) -> None:
    entry = params.entry("finetune", key, Finetune)
    from pipelines.training import finetune_entry

    finetune_entry.finetune("finetune", key, entry, paths.model(key), resources.read("finetune", key))


if __name__ == "__main__":
    stage.run("finetune", main)
