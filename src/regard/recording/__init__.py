"""capture(): what any model attended to, in bounded memory, with the output unchanged."""
