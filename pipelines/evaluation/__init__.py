"""Scores of predictions against rows, and decisions based on scores; numpy only, no model."""
