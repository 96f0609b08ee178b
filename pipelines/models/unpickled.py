"""Models that came to another process: what transformers notes when it builds one does not travel with it.

A model that was pickled gives no hidden states where none of its class was built (`PreTrainedModel.__init__` notes what
a class can record). A fine-tuning on a sum of layers, and a distillation, read them in Ray's workers.
"""

import torch
from torch import nn
from transformers import PreTrainedModel


def note(model: nn.Module) -> None:
    """Build one of each class in `model`, without memory for its weights, so that transformers knows the class."""
    known = {type(part): part for part in model.modules() if isinstance(part, PreTrainedModel)}
    state = torch.get_rng_state()
    for kind, part in known.items():
        with torch.device("meta"):
            kind(part.config)
    torch.set_rng_state(state)
