"""The life of a registered model: registration, promotion and rollback, history, lineage, drift of its windows."""
