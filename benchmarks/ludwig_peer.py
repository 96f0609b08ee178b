"""Ludwig on the rows of few_rows.py, by the Python of an environment that has it: prints its score and its seconds.

    PYTHON benchmarks/ludwig_peer.py FOLDER ENCODER

FOLDER has train.parquet and test.parquet. Without an ENCODER ("") Ludwig trains its default encoder of texts.
"""

import json
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas
import torch
from ludwig.api import LudwigModel
from transformers import AutoModel


def config(encoder: str) -> dict[str, Any]:
    """Ludwig's defaults; with an encoder of transformers, the rate and the epochs that `bertline new` writes."""
    text: dict[str, Any] = {"name": "text", "type": "text"}
    trainer: dict[str, Any] = {}
    if encoder:
        pretrained = {"type": "auto_transformer", "pretrained_model_name_or_path": encoder, "trainable": True}
        text |= {"encoder": pretrained | {"reduce_output": "mean"}, "preprocessing": {"max_sequence_length": 64}}
        trainer = {"learning_rate": 5e-4, "epochs": 20, "batch_size": 16}
    return {"input_features": [text], "output_features": [{"name": "label", "type": "category"}], "trainer": trainer}


def in_float32(encoder: str, to: Path) -> str:
    """A copy of the encoder's folder with weights of 32 bits; Ludwig takes those of 16 bits as they are, and fails."""
    shutil.copytree(encoder, to)
    AutoModel.from_pretrained(encoder, dtype=torch.float32).save_pretrained(to)
    return str(to)


def main(folder: Path, encoder: str) -> None:
    torch.set_num_threads(1)
    train, test = (pandas.read_parquet(folder / f"{split}.parquet")[["text", "label"]] for split in ("train", "test"))
    with tempfile.TemporaryDirectory() as to:
        copy = in_float32(encoder, Path(to, "encoder")) if encoder else ""
        model = LudwigModel(config(copy), logging_level=logging.ERROR, backend="local")
        began = time.perf_counter()
        model.train(dataset=train, output_directory=to, random_seed=1, skip_save_processed_input=True)
        seconds = time.perf_counter() - began
        answers, _ = model.predict(dataset=test, output_directory=to)
    right = int((answers["label_predictions"].astype(str).to_numpy() == test["label"].astype(str).to_numpy()).sum())
    print(json.dumps({"score": right / len(test), "seconds": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
