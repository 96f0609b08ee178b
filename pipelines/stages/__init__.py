"""The verbs of dvc.yaml: each reads its entry in params.yaml, calls the rooms below, writes one artefact."""
