"""One file, one plot: each takes an Axes and returns it."""
