"""Fine-tuning as others write it: transformers.Trainer as its examples have it, and the keynote's own program."""

from typing import Any

import torch
from transformers import (
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)

from pipelines.entries.finetune import Finetune
from pipelines.training import strategies
from pipelines.training.batches import Encoded

RATES = [0.001, 0.0005]  # the keynote's, of the top layer and the one below
TOP2 = {
    "strategy": "top_k",
    "top_k": 2,
    "optimizer": "sgd",
    "layer_learning_rates": RATES,
    "head_learning_rate": 0.1,
    "schedule": "constant",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "batch_size": 10,
}  # the keynote's program as params, as params/livedoor.yaml has it


def rows(data: Encoded) -> list[dict[str, Any]]:
    """As a Dataset would give them."""
    bounds = zip(data.offsets, data.offsets[1:], strict=False)
    peer_rows: list[dict[str, Any]] = [{"input_ids": data.ids[a:b].tolist()} for a, b in bounds]
    assert data.labels is not None
    for row, label, i in zip(peer_rows, data.labels, range(len(peer_rows)), strict=True):
        if data.labels.ndim == 2:
            row |= {"start_positions": int(label[0]), "end_positions": int(label[1])}
        else:
            row["labels"] = int(label)
        if data.first_length is not None:
            first = int(data.first_length[i])
            row["token_type_ids"] = [0] * first + [1] * (len(row["input_ids"]) - first)
    return peer_rows


def trainer(
    model: PreTrainedModel,
    data: Encoded,
    tokenizer: PreTrainedTokenizerBase,
    epochs: int,
    batch_size: int,
    length: int | None = None,
    top_k: int = 0,
    grouped: bool = False,
    rate: float = 1e-4,
    first: int | None = None,
) -> None:
    """Trainer over `data`, padded to `length`, or to the longest of a batch; `top_k` freezes all below those layers.

    With `first` it prepares all rows, and trains on so many.
    """
    if top_k:
        strategies.groups(model, Finetune(data="d", encoder="e", strategy="top_k", top_k=top_k))
    collator = DataCollatorWithPadding(tokenizer, "max_length" if length else "longest", length)
    arguments = TrainingArguments(
        "trainer", num_train_epochs=epochs, per_device_train_batch_size=batch_size, learning_rate=rate, report_to=[],
        seed=1, save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        remove_unused_columns=False, train_sampling_strategy="group_by_length" if grouped else "random",
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows(data)[:first], data_collator=collator).train()


def keynote(model: PreTrainedModel, data: Encoded, epochs: int, first: int | None = None) -> None:
    """The slide's program: ids padded with 0 to 50, no mask, every layer run in every step, the top two trained.

    With `first` it prepares all rows, and trains on so many.
    """
    entry = Finetune(data="d", encoder="e", **TOP2)
    optimizer = torch.optim.SGD(strategies.groups(model, entry))
    bounds = zip(data.offsets, data.offsets[1:], strict=False)
    ids = torch.tensor([(data.ids[a:b].tolist() + [0] * 50)[:50] for a, b in bounds])[:first]
    labels = torch.from_numpy(data.labels)
    model.train()
    for epoch in range(epochs):
        for chosen in torch.randperm(len(ids)).split(10):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(input_ids=ids[chosen]).logits, labels[chosen]).backward()
            optimizer.step()
        if epoch % 5 == 4:
            torch.save(model.state_dict(), "keynote.pt")
