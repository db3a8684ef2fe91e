"""Measurements against peers, as rows of numbers with a target; nothing here draws or prints."""
