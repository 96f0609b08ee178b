"""Scoring of files: one Parquet file, or a folder of files partition by partition, exactly once and audited."""
