"""Scores that depend on position. The public door to `regard.core.bias`."""

from regard.core.bias import (
    alibi as alibi,
    alibi_slopes as alibi_slopes,
    relative as relative,
    relative_buckets as relative_buckets,
    resize_window_table as resize_window_table,
    softcap as softcap,
    window_index as window_index,
    window_table as window_table,
)
