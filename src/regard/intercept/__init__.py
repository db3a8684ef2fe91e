"""Attention sites inside any module, seen from the dispatcher. Serves the checker and capture."""
