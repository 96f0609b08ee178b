"""Pretraining objectives, one file each: what is corrupted in a text, and what is predicted.

Each has Params; READS, the kinds of rows that it learns from and how they become batches (see
pretraining/corrupted_batches.py); `auto(params)`, the transformers Auto class of the model that it trains;
`around(model, params)`, the module that holds this model during training; `corrupt(batch, rng, params, tokenizer)`;
`predict(model, batch)`; and `check(family)`, which raises InputError for a family that it cannot train.
"""
