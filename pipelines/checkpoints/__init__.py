"""A model's files: its folder, the formats of its weights, loading, and the start of trainings."""
