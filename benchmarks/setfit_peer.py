"""SetFit on the rows of few_rows.py, by the Python of an environment that has it: prints its score and its seconds.

    PYTHON benchmarks/setfit_peer.py FOLDER ENCODER PAIRS

FOLDER has train.parquet and test.parquet; PAIRS are those of each row, `num_iterations`, of the contrastive training.
"""

import json
import sys
import time
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, models
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression


def main(folder: Path, encoder: str, pairs: int) -> None:
    torch.set_num_threads(1)
    train, test = (Dataset.from_parquet(str(folder / f"{split}.parquet")) for split in ("train", "test"))
    words = models.Transformer(encoder, max_seq_length=64, model_args={"dtype": torch.float32})
    body = SentenceTransformer(modules=[words, models.Pooling(words.get_embedding_dimension(), "mean")])
    body.to("cpu")
    model = SetFitModel(model_body=body, model_head=LogisticRegression(max_iter=1000), labels=train.unique("label"))
    options = TrainingArguments(batch_size=16, num_epochs=1, num_iterations=pairs, seed=1, report_to="none")
    trainer = Trainer(model, options, train_dataset=train.select_columns(["text", "label"]))
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    answers = model.predict(test["text"])
    right = sum(str(answer) == label for answer, label in zip(answers, test["label"], strict=True))
    print(json.dumps({"score": right / len(test), "seconds": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
