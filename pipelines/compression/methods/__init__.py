"""Compression methods, one file each: Params, and compress(context, params) -> model."""
