"""Measuring models: size and latency beside others, the runtime to choose, checks of gates, the profile for drift."""
