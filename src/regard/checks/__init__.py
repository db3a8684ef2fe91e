"""The checker: relations that right attention code fulfils, run on anybody's module."""
