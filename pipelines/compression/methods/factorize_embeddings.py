"""factorize_embeddings: the word embedding (V, H) becomes (V, E) and (E, H), then fine-tuning (Lan et al. 2020, 3.1).

The two matrices start as the best least-squares approximation of the table: its singular value decomposition, cut to E
dimensions. With E as large as H they reproduce the table.

ALBERT and ELECTRA have an `embedding_size` of their own, but they project after the sum with positions and after its
LayerNorm. A model with a smaller `embedding_size` would be another function even at full rank, and no decomposition of
the table yields it. So in every family the two matrices replace the table. config.json notes E (`bertline_reshaped`),
and bertline opens the folder.
"""

from typing import Any

from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune
from pipelines.core.errors import UsageError
from pipelines.core.section import Count
from pipelines.models import backbones, shapes
from pipelines.models.factorized import Factorized

FAMILIES = tuple(backbones.BACKBONES)
EXAMPLE: dict[str, Any] = {"size": 8}


class Params(FineTuneAfter):
    """E, and the settings of fine-tuning (`epochs: 0` skips it)."""

    size: Count  # E


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with a factorized word embedding."""
    model = context.teacher
    encoder: Any = backbones.encoder(model)
    whole = encoder.get_input_embeddings()
    if isinstance(whole, Factorized):
        raise UsageError(f"params.yaml: compress: size: the teacher's embedding is factorized already, to {whole.rank}")
    table = whole.weight.detach().clone()
    (entries, width), size = table.shape, params.size
    if size * (entries + width) >= entries * width:
        least = (entries * width - 1) // (entries + width)
        raise UsageError(
            f"params.yaml: compress: size: {size} makes a table of {entries:,} x {width} no smaller; take up to {least}"
        )
    shapes.add(model, shapes.RANK, size)
    factorized = encoder.get_input_embeddings()
    assert isinstance(factorized, Factorized), type(factorized)
    context.found["kept_of_squares"] = round(factorized.fill(table), 6)
    return fine_tune(context, model, params)
