"""import_weights: where a published checkpoint is."""

from pipelines.core.section import Section


class ImportWeights(Section):
    source: str  # a Hugging Face folder, or a name on the hub
