"""Servers of this machine, and the settings of Prefect's clients."""
