"""The self-contained offline page, built from plain data."""
