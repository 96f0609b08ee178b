"""One file a tokenizer: Params, train(texts, folder, size, params), load(folder)."""
