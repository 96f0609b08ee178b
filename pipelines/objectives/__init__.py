"""Pretraining objectives, one file each: how a text is corrupted, and what is predicted.

Each module defines:
    Params: its settings.
    READS: the kinds of rows that it learns from, and how they become batches (see pretraining/corrupted_batches.py).
    auto(params): the transformers Auto class of the model that it trains.
    around(model, params): the module that holds this model during training.
    corrupt(batch, rng, params, tokenizer): the corrupted batch.
    predict(model, batch): the predictions that it learns from.
    check(family): raises InputError for a family that it cannot train.
    COMPARES_ROWS: True if what is predicted for a row depends on the other rows of its batch; may be left out. No batch
        is divided then, among workers or into parts; Params declares `accumulate`, and refuses more than 1.
"""
