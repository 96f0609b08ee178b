"""prune_magnitude: set the weights nearest to zero to zero, in rounds, and train the others (Han et al. 2015).

With `rewind` the weights that are left go back after every round to where they started, and only the mask is learned:
the lottery ticket (Frankle and Carbin 2019, section 1, "iterative pruning"; Chen et al. 2020, "The Lottery Ticket
Hypothesis for Pre-trained BERT Networks"). `rewind: teacher` goes back to the teacher; `rewind: encoder`, as in Chen et
al., to the encoder that the teacher was fine-tuned from. The head and the pooler keep the teacher's weights then; in
the paper the head begins at random, and the pooler is pruned and goes back too.

The matrices inside the layers are pruned, all together by magnitude, as in Chen et al.; embeddings, biases, norms and
the head are not. The file stays as large and the model as slow: zeros are stored and multiplied like other numbers.
`sparsity` in variant.json is the share of zeros in the file.
"""

from pathlib import Path
from typing import Annotated, Literal

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

FAMILIES = tuple(name for name in backbones.BACKBONES if name != "xlnet")  # whose weights have three dimensions
REWIND = "params.yaml: compress: rewind: encoder"


class Params(FineTuneAfter):
    """The share of the layers' weights that is zero at the end, and the settings of each round's training."""

    sparsity: Annotated[float, Field(gt=0, lt=1)]
    rounds: Count = 1
    rewind: Literal["none", "teacher", "encoder"] = "none"


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with many weights that are zero."""
    model = context.teacher
    start = _start(context, params.rewind)
    for number in range(1, params.rounds + 1):
        left = masks.smallest(model, masks.sparsity_after(number, params.rounds, params.sparsity))
        model.load_state_dict(start, strict=False)
        masks.put(model, left)
        kept = masks.Kept(left)
        model = fine_tune(context, model, params, each_step=kept)
        kept.end()
    context.found["sparsity_of_layers"] = round(masks.share_of_zeros(model), 6)
    return model


def _start(context: Context, rewind: str) -> dict[str, torch.Tensor]:
    """The weights, by their names in the model, to which every round goes back; {} if it goes on with what it has."""
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
    """The encoder that the teacher was fine-tuned from. Raises UsageError unless it is still what it was."""
    record = provenance.read(context.source)
    if record.get("stage") != "finetune":
        raise UsageError(f"{REWIND}: {context.source} is not what finetune made, so it has no encoder to go back to")
    folder = Path(record["params"]["encoder"])
    if not folder.is_dir() or provenance.digest(folder) != record["inputs"].get(folder.as_posix()):
        raise UsageError(f"{REWIND}: {folder} is no longer what {context.source} was fine-tuned from")
    encoder: PreTrainedModel = new_head.encoder(folder)
    return encoder
