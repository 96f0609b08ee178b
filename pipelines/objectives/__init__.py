"""Pretraining objectives, one file each: what is corrupted, what is predicted, what it costs to be wrong.

Each has Params; READS, the kinds of rows that it learns from and how they become batches (training/corruption.py); `auto(params)`, the
transformers Auto class of the model that it leaves; `around(model, params)`, what trains around that model;
`corrupt(batch, rng, params, tokenizer)`; `predict(model, batch)`; and `check(family)`, which refuses what it cannot
train.
"""
