"""Tokenizers, one module each: Params, train(texts, folder, size, params), load(opened folder)."""
