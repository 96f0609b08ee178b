"""The settings of a training: keys of pretraining, fine-tuning and the compression methods that train."""

from typing import Annotated, Literal

from pydantic import Field

from pipelines.core.section import Count, Fraction, PluginSection, Positive


class Fit(PluginSection):
    """The settings of one training."""

    epochs: Positive = 3
    batch_size: Count = 32  # rows (in pretraining: sequences) per step, over all workers
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 2e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # for sgd only
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: Fraction = 0.1  # share of the steps
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0  # 0: no clipping
    accumulate: Count = 1  # parts in which a batch is computed, one after another: less memory, the same update
    evaluations: Count = 10  # number of times that the model is scored on held-out data in the whole training
    patience: Annotated[int, Field(ge=0)] = 0  # evaluations without a new best score that end the training; 0: never
    seed: Annotated[int, Field(ge=0)] = 1
