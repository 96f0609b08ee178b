"""Pretraining: masked tokens, segments, packed documents and positive pairs as batches, and the training itself."""
