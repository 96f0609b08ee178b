"""A model's files: its folder, the formats of its weights, loading, and what training starts from."""
