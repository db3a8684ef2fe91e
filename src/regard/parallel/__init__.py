"""Attention over many processes: each holds a part of every sequence."""

from regard.parallel.sequence import SequenceParallel as SequenceParallel, sequence_parallel as sequence_parallel
from regard.parallel.shards import Shards as Shards, shard as shard
