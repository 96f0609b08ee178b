"""finetune: train an encoder and a head on one task, with Ray Train."""

from pipelines.core import params, paths, stage
from pipelines.entries.finetune import Finetune


def main(key: str) -> None:
    entry = params.entry("finetune", key, Finetune)
    from pipelines.training import finetuning

    with paths.fresh_folder(paths.model(key)) as out:
        finetuning.finetune("finetune", key, entry, out)


if __name__ == "__main__":
    stage.run("finetune", main)
