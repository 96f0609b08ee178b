"""Compression: smaller models made from fine-tuned ones."""
