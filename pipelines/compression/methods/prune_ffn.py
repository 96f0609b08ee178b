"""prune_ffn: remove the least important feed-forward rows, and fine-tune the rest.

A row is one number between the two matrices of a layer's feed-forward part. Its importance is computed as for heads by
Michel et al. 2019; McCarley et al. 2019 ("Structured Pruning of a BERT-based Question Answering Model") also remove
rows this way. Rows are cut out of the matrices, which get smaller. By default every layer loses the same number, and
the result is a native model with a smaller `intermediate_size`. With `among: model` the rows of all layers compete,
config.json notes how many each layer has (`bertline_reshaped`), and bertline opens the folder.
"""

from typing import Annotated, Any, Literal

from pydantic import Field
from transformers import PreTrainedModel

from pipelines.compression import importance
from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune
from pipelines.core.section import Count
from pipelines.models import shapes
from pipelines.training import losses

# not MobileBERT, whose layers have several feed-forward parts
FAMILIES = ("bert", "roberta", "electra", "distilbert", "albert", "deberta-v2", "modernbert")
EXAMPLE: dict[str, Any] = {"share": 0.5}


class Params(FineTuneAfter):
    """The share of all rows to remove, how the rows are chosen, and the settings of fine-tuning."""

    share: Annotated[float, Field(gt=0, lt=1)]  # share of all rows
    among: Literal["layer", "model"] = "layer"
    rounds: Count = 1
    least: Count = 1  # rows that every layer keeps at least
    rows: Count = 2000  # training rows to measure importance on
    measure_batch: Count = 32  # batch size of the measurement


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with fewer feed-forward rows."""
    model, apart = context.teacher, params.among == "layer"
    shapes.require_own(model, "prune_ffn")
    counts = shapes.rows(model)
    remove = importance.number_of(params.share, [min(counts)] if apart else counts, params.least, "feed-forward rows")
    for some in importance.rounds(remove, params.rounds):
        after = [shapes.feed_forward(model, i).after for i in range(len(counts))]
        batches = context.data.once(params.rows, params.measure_batch, context.seed)
        scores = importance.measure(model, batches, losses.for_kind(context.task.kind), after, [1] * len(after))
        if apart:
            chosen = [importance.staying([layer], some, params.least)[0] for layer in scores]
        else:
            chosen = importance.staying(importance.normalized(scores), some, params.least)
        for number, stay in enumerate(chosen):
            shapes.keep_rows(model, number, stay)
    shapes.note(model)
    context.found["intermediate"] = shapes.rows(model)
    return fine_tune(context, model, params)
