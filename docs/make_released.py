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
    "attnhut": "Emmanuel G. Maminta",
    "fightingcv-attention": "fightingcv",
    "torch-multi-head-attention": "CyberZHG",
    "self-attention-cv": "Nikolas Adaloglou",
    "torch-attention": "changzy00",
    "vformer": "Neelay Shah",
    "swin-transformer-pytorch": "Bernhard Walser",
    "attzoo": "attzoo",
    "aft-pytorch": "Rishabh Anand",
    "grouped-query-attention-pytorch": "Frank Odom",
    "stackformers": "Vadym Stupakov",
    "bio-attention": "Gaetan Dewael",
    "slot-attention-pytorch": "mikedev",
    "area-attention": "Mikołaj Małkiński",
    "gaussian-adaptive-attention": "Georgios Ioannides",
    "curated-transformers": "Explosion",
    "multihead-latent-attention": "Farhan Mohammed",
    "retnet-torch": "juvi21",
    "differential-transformer": "Kye Gomez",
    "ane-transformers": "Apple",
    "vision-transformer-pytorch": "Zhang Zhi",
    "x-metaformer": "Robert Müller",
}
