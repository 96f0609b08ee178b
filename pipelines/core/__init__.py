"""What all other packages share: parameters, paths, schemas, files, provenance. Knows nothing of models."""
