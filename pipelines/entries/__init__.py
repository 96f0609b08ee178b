"""The entries of params.yaml: one file per section, with the keys that its entries may have."""
