"""Support for unpickled models in another process, where transformers has not registered their classes.

`PreTrainedModel.__init__` registers which hidden states a class can record. In a process that has built no model of the
class, an unpickled model returns no hidden states. Fine-tuning on a sum of layers and distillation need them in Ray's
workers.
"""

import torch
from torch import nn
from transformers import PreTrainedModel


def note(model: nn.Module) -> None:
    """Build a model of each class in `model`, without memory for weights, so that transformers registers the class."""
    known = {type(part): part for part in model.modules() if isinstance(part, PreTrainedModel)}
    state = torch.get_rng_state()
    for kind, part in known.items():
        with torch.device("meta"):
            kind(part.config)
    torch.set_rng_state(state)
