"""What a model is given in one step."""

import torch

Batch = dict[str, torch.Tensor]  # input_ids, labels, ...: the first dimension of every tensor is the batch's rows
IGNORE = -100  # a label that is not learned from, as torch's cross_entropy has it
