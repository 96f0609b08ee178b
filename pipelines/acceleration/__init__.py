"""Faster ways to compute the same numbers, one file each; `apply` switches them on and off."""
