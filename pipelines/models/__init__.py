"""Encoders and heads as Hugging Face models: where their layers are, how their folders are read and written."""
