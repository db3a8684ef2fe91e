"""The rules: one file, one relation. The folder is the list."""
