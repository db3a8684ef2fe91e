"""Pure functions of tensors: attention, masks, biases, positions. Imports torch, and nothing of ours."""
