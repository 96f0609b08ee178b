"""import_weights: the source of a published checkpoint."""

from pipelines.core.section import Section


class ImportWeights(Section):
    source: str  # a Hugging Face folder, or a name on the hub
    revision: str = ""  # for a name on the hub: a commit, which always gives the same files; "": the newest
