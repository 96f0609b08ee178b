"""Smaller models of fine-tuned ones."""
