"""Ways to compute one attention call. One file per backend; `registry.py` lists them in the order of preference."""
