"""One file a method: Params, compress(teacher, data, params, fit) -> model."""
