"""What the checker finds in released packages: the list of packages, chosen and written down before the first run.

They are the attention packages of the registry that need torch, numpy, einops and little else, by as many authors as we
found; five are by one author, whose packages are the most used ones.
"""

from __future__ import annotations

PACKAGES = {  # distribution -> author
    "vit-pytorch": "Phil Wang",
    "x-transformers": "Phil Wang",
    "local-attention": "Phil Wang",
    "performer-pytorch": "Phil Wang",
    "reformer-pytorch": "Phil Wang",
    "linformer-pytorch": "Peter Tatkowski",
    "attnhut": "attnhut",
    "fightingcv-attention": "xmu-xiaoma666",
    "torch-multi-head-attention": "CyberZHG",
    "self-attention-cv": "Nikolas Adaloglou",
    "torch-attention": "Changzhi Yang",
    "vformer": "SforAiDl",
    "swin-transformer-pytorch": "Yannick Berner",
    "attzoo": "attzoo",
    "aft-pytorch": "Rishabh Anand",
    "grouped-query-attention-pytorch": "Frank Odom",
    "stackformers": "stackformers",
    "bio-attention": "Gaetan Dewael",
    "slot-attention-pytorch": "slot-attention-pytorch",
    "area-attention": "area-attention",
    "gaussian-adaptive-attention": "Georgios Ioannides",
    "curated-transformers": "Explosion",
    "multihead-latent-attention": "multihead-latent-attention",
    "retnet-torch": "retnet-torch",
    "differential-transformer": "Kye Gomez",
}
