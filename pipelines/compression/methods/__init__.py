"""Compression methods, one file each: Params, an EXAMPLE of them, and compress(context, params) -> model."""
