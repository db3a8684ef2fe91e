"""Stored cases: weights, inputs and outputs of frameworks that may not be installed (made by tests/golden/make_convert_golden.py)."""
