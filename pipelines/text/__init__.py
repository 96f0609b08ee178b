"""Text to token ids: normalising, vocabularies, tokenizers, and what each kind of row becomes."""
