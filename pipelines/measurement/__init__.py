"""Measurements of models: cost, latency comparisons, choice of runtime, behaviour checks, profiles for drift."""
