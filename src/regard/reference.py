"""The specification: attention in open lines of float64. The public door to `regard.core.reference`."""

from regard.core.reference import attention as attention, attention_weights as attention_weights
