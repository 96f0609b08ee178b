"""Pretraining objectives, one file each: what is corrupted, what is predicted, what it costs to be wrong."""
