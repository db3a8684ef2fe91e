"""How to read, fill and run attention modules that we did not write: one file per framework, plain tensors between them."""
