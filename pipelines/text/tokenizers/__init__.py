"""Tokenizers, one file each: Params, train(texts, folder, size, params), load(folder)."""
