"""The base of all other packages: parameters, paths, schemas, files, provenance. Knows nothing of models."""
