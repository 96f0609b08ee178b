"""finetune: an encoder, a head and the settings of their training on one task."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from pipelines.core.section import Count, Name, Positive
from pipelines.entries.parts.fit import Fit


class Finetune(Fit):
    model_config = ConfigDict(extra="forbid", frozen=True)

    refers: ClassVar = {"data": ("encode",)}

    data: Name
    encoder: str  # a model folder: artifacts/models/NAME, encoders/NAME
    head: Literal["native", "linear", "mlp", "bilstm"] = "native"  # the family's own head, or one of ours
    # the vector of a sequence that the head reads: [CLS], the mean of all tokens, or a comparison of the means of two
    # texts. None: [CLS] for our heads, the family's own choice for the native head; only modernbert lets it be chosen
    pooling: Literal["cls", "mean", "compare"] | None = None
    features: Literal["embeddings", "second_to_last", "last", "sum_last_four", "concat_last_four", "weighted_sum"] = (
        "last"  # the layers that our heads read
    )
    strategy: Literal["full", "top_k", "frozen"] = "full"
    top_k: Count = 2
    layer_learning_rates: list[Positive] = []  # from the top layer down; empty: learning_rate for each
    head_learning_rate: Positive | None = None  # None: learning_rate
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # full: a layer's rate / rate of the layer above
    class_weights: Literal["equal", "balanced"] = "equal"  # balanced: every class has the same total weight
    dev: str = ""  # a split to score the model on during training; the weights with the best score are kept
    max_train_rows: Annotated[int, Field(ge=0)] = 0  # for a quick trial: maximum rows, drawn with the seed; 0: all
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
