"""The stages of dvc.yaml: each reads its entry of params.yaml, calls the packages below and writes one artefact."""
