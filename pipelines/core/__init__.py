"""What every floor stands on: parameters, paths, schemas, files, provenance. Knows no model and no vendor."""
