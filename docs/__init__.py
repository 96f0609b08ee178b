"""Documents, and what writes parts of them."""
