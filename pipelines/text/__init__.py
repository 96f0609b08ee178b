"""From text to token ids: normalization, vocabularies, tokenizers, and the encoding of each kind of rows."""
