"""All the work of bertline: text in, dependable models out."""
