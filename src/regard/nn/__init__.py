"""Torch modules over core; one mechanism per file."""
