"""The stages of dvc.yaml: each reads its entry of params.yaml, calls the other packages and writes one artefact."""
