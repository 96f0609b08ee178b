"""Keys that the entries of several sections share."""
