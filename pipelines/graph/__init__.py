"""The graph of dvc.yaml: the files that each stage runs and therefore depends on."""
