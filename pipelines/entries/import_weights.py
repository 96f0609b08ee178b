"""import_weights: where a published checkpoint is."""

from pipelines.core.section import Section


class ImportWeights(Section):
    source: str  # a Hugging Face folder, or a name on the hub
    revision: str = ""  # of a name on the hub: a commit, which always gives the same files; "" takes the newest
