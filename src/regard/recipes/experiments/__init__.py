"""What the founding tutorials claim, put to the test: one protocol, one file for each group of claims."""
