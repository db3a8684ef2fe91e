"""The adviser: what a Transformer of given sizes takes in memory and operations, what fits, and what to choose, with reasons."""
