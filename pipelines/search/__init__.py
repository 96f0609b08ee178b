"""Searches: over the params of an entry, and over chains of compression methods."""
