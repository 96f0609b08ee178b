"""Tokenizers, one module each: how a vocabulary is learned, and how a text becomes ids.

Each module defines:
    Params: its settings.
    train(texts, folder, size, params): learns `size` pieces and writes the tokenizer's files, the same for the same
        texts. `texts()` begins again at each call. One that cannot learn raises UsageError.
    load(folder): the tokenizer of an OpenedFolder, with the interface `Tokenizer` of text/protocol.py.

Where tokenizer.json holds the tokenizer, `write` and `read` of text/backend.py do all of it. The folder's
tokenizer_config.json names the module; see text/tokenizer.py.
"""
