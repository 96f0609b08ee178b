"""All the work of bertline: from text to dependable models."""
