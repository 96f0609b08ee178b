"""prune_magnitude: set the weights nearest to zero to zero, in rounds, and train the others (Han et al. 2015).

With `rewind` the remaining weights return to their starting values after every round, and only the mask is learned: the
lottery ticket (Frankle and Carbin 2019, section 1, "iterative pruning"; Chen et al. 2020, "The Lottery Ticket
Hypothesis for Pre-trained BERT Networks"). `rewind: teacher` returns to the teacher. `rewind: encoder`, as in Chen et
al., returns to the encoder that the teacher was fine-tuned from; the head and the pooler then keep the teacher's
weights. In the paper the head starts at random, and the pooler is pruned and rewound too.

The matrices inside the layers are pruned together by magnitude, as in Chen et al.; embeddings, biases, norms and the
head are not pruned. The file stays as large and the model as slow, because zeros are stored and multiplied like other
numbers. `sparsity` in variant.json is the share of zeros in the file.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from transformers import PreTrainedModel

from pipelines.checkpoints import new_head
from pipelines.compression import masks
from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune
from pipelines.core import provenance
from pipelines.core.errors import UsageError
from pipelines.core.section import Count
from pipelines.models import backbones

FAMILIES = tuple(name for name in backbones.BACKBONES if name != "xlnet")  # XLNet's weights have three dimensions
REWIND = "params.yaml: compress: rewind: encoder"
EXAMPLE: dict[str, Any] = {"sparsity": 0.75, "rounds": 2, "rewind": "teacher"}


class Params(FineTuneAfter):
    """The final share of zeros among the layers' weights, and the settings of each round's training."""

    sparsity: Annotated[float, Field(gt=0, lt=1)]
    rounds: Count = 1
    rewind: Literal["none", "teacher", "encoder"] = "none"


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with its smallest weights set to zero."""
    model = context.teacher
    start = _start(context, params.rewind)
    for number in range(1, params.rounds + 1):
        stay = masks.smallest(model, masks.sparsity_after(number, params.rounds, params.sparsity))
        model.load_state_dict(start, strict=False)
        masks.put(model, stay)
        keeper = masks.MaskHooks(stay)
        model = fine_tune(context, model, params, each_step=keeper)
        keeper.end()
    context.found["sparsity_of_layers"] = round(masks.share_of_zeros(model), 6)
    return model


def _start(context: Context, rewind: str) -> dict[str, torch.Tensor]:
    """The weights, by name, that every round returns to; {} if a round continues with the current weights."""
    model = context.teacher
    if rewind == "none":
        return {}
    if rewind == "encoder":
        weights = _encoder(context).state_dict()
        body = {id(p) for p in backbones.encoder_parameters(model)}
        prefix = next(name for name, module in model.named_modules() if module is backbones.encoder(model))
        named = {name.removeprefix(f"{prefix}."): name for name, p in model.named_parameters() if id(p) in body}
        return {name: weights[inner].clone() for inner, name in named.items()}
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _encoder(context: Context) -> PreTrainedModel:
    """The encoder that the teacher was fine-tuned from.

    Raises UsageError if finetune did not make the teacher, or if the encoder has changed since.
    """
    record = provenance.read(context.source.path)
    if record.get("stage") != "finetune":
        raise UsageError(f"{REWIND}: finetune did not make {context.source}, so it has no encoder to go back to")
    folder = Path(record["params"]["encoder"])
    if not folder.is_dir() or provenance.digest(folder) != record["inputs"].get(folder.as_posix()):
        raise UsageError(f"{REWIND}: {folder} has changed since {context.source} was fine-tuned from it")
    encoder: PreTrainedModel = new_head.encoder(folder)
    return encoder
