"""Recipes: one task is one file that reads from top to bottom, trains our layers on real data, and prints what it reached."""
