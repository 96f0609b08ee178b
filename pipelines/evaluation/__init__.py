"""Scores of predictions against rows, and decisions made of scores; numpy only, no model."""
