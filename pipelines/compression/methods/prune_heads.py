"""prune_heads: remove the least important attention heads, and fine-tune the rest (Michel et al. 2019).

A removed head is cut out: its rows of query, key and value and its columns of the output, so the matrices get smaller.
The configs of transformers cannot express layers with different numbers of heads, so config.json notes them
(`bertline_reshaped`), and bertline opens the folder. With several rounds the importance is measured again before each
(section 4.1).

Differences from the paper: it prunes without training afterwards, and may remove all heads of a layer. Here every layer
keeps `least` heads.
"""

from typing import Annotated, Any

from pydantic import Field
from transformers import PreTrainedModel

from pipelines.compression import importance
from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune
from pipelines.core.section import Count
from pipelines.models import shapes
from pipelines.training import losses

FAMILIES = ("bert", "roberta", "electra", "distilbert", "albert", "mobilebert", "modernbert")
EXAMPLE: dict[str, Any] = {"share": 0.5}


class Params(FineTuneAfter):
    """The share of all heads to remove, how the heads are chosen, and the settings of fine-tuning."""

    share: Annotated[float, Field(gt=0, lt=1)]  # share of all heads
    rounds: Count = 1
    least: Count = 1  # heads that every layer keeps at least
    normalize: bool = True  # importances of a layer are divided by their l2 norm
    rows: Count = 2000  # training rows to measure importance on
    measure_batch: Count = 32  # batch size of the measurement


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with fewer heads."""
    model = context.teacher
    shapes.require_own(model, "prune_heads")
    counts = shapes.heads(model)
    remove = importance.number_of(params.share, counts, params.least, "heads")
    for some in importance.rounds(remove, params.rounds):
        after = [shapes.attention(model, i).after for i in range(len(counts))]
        batches = context.data.once(params.rows, params.measure_batch, context.seed)
        sizes = [shapes.head_size(model)] * len(after)
        scores = importance.measure(model, batches, losses.for_kind(context.task.kind), after, sizes)
        if params.normalize:
            scores = importance.normalized(scores)
        for number, stay in enumerate(importance.staying(scores, some, params.least)):
            shapes.keep_heads(model, number, stay)
    shapes.note(model)
    context.found["heads"] = shapes.heads(model)
    return fine_tune(context, model, params)
