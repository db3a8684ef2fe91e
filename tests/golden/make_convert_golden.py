"""Make the stored cases of regard.convert: weights, inputs and outputs of Flax, of Keras on JAX, and of timm.

Run once per framework, from the root of the repository, in an environment that has it (torch is needed for timm alone):

    python tests/golden/make_convert_golden.py flax
    KERAS_BACKEND=jax python tests/golden/make_convert_golden.py keras
    python tests/golden/make_convert_golden.py timm

Flax and Keras go into the package (src/regard/convert/golden), for whoever converts without the framework; timm beside
this file. Masks are True = attend. Weights are random and large enough that the softmax is not flat.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

E, HEADS, KV_HEADS, B, T, S = 16, 4, 2, 2, 7, 9
LENGTHS = np.array([7, 4])
ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "regard" / "convert" / "golden"


def main() -> None:
    makers = {"flax": flax, "keras": keras, "timm": timm}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        raise SystemExit(__doc__)
    makers[sys.argv[1]]()


def inputs() -> tuple[np.random.Generator, dict[str, np.ndarray]]:
    """The generator for the weights, and what every framework is given."""
    rng = np.random.default_rng(20261130)
    given = {"query": rng.standard_normal((B, T, E)), "context": rng.standard_normal((B, S, E))}
    return rng, {name: x.astype(np.float32) for name, x in given.items()}


def masks() -> dict[str, np.ndarray]:
    """(B, T, T or S) bool, True = attend, by case."""
    causal, keep = np.tril(np.ones((T, T), bool)), np.arange(T) < LENGTHS[:, None]
    made = {
        "self": np.ones((B, T, T), bool),
        "padding": np.broadcast_to(keep[:, None], (B, T, T)),
        "causal": np.broadcast_to(causal, (B, T, T)),
        "causal and padding": causal & keep[:, None],
        "cross": np.broadcast_to((np.arange(S) < LENGTHS[:, None])[:, None], (B, T, S)),
    }
    return {name: np.ascontiguousarray(x) for name, x in made.items()}


def save(path: pathlib.Path, made_with: str, weights: dict, call) -> None:
    """The weights, and the output of `call(query, key, attend)` for every case."""
    given = inputs()[1]
    entries = {f"weights.{name}": np.asarray(x) for name, x in weights.items()} | given
    for name, attend in masks().items():
        key = given["context"] if name == "cross" else given["query"]
        output = call(given["query"], key, attend)
        if output is not None:
            entries |= {f"attend.{name}": attend, f"output.{name}": np.asarray(output)}
    np.savez_compressed(path, made_with=made_with, **entries)
    print(f"{path.name}: {path.stat().st_size} bytes, made with {made_with}")


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(E)).astype(np.float32)


def flax() -> None:
    import flax
    import jax.numpy as jnp
    from flax import nnx

    rng = inputs()[0]
    made = nnx.MultiHeadAttention(num_heads=HEADS, in_features=E, num_kv_heads=KV_HEADS, rngs=nnx.Rngs(0))
    weights = {}
    for name in ("query", "key", "value", "out"):
        part = getattr(made, name)
        for kind in ("kernel", "bias"):
            weights[f"{name}.{kind}"] = draw(rng, getattr(part, kind).shape)
            getattr(part, kind).value = jnp.asarray(weights[f"{name}.{kind}"])

    def call(query, key, attend):
        mask = jnp.asarray(attend[:, None])
        return made(jnp.asarray(query), jnp.asarray(key), mask=mask, deterministic=True, decode=False)

    save(PACKAGE / "flax.npz", f"flax {flax.__version__}", weights, call)


def keras() -> None:
    import keras

    rng = inputs()[0]
    made = keras.layers.MultiHeadAttention(HEADS, E // HEADS)
    made.build((None, None, E), (None, None, E))
    weights = {}
    for name, dense in zip(
        ("query", "key", "value", "attention_output"),
        (made.query_dense, made.key_dense, made.value_dense, made.output_dense),
    ):
        for kind in ("kernel", "bias"):
            weights[f"{name}/{kind}"] = draw(rng, tuple(getattr(dense, kind).shape))
            getattr(dense, kind).assign(weights[f"{name}/{kind}"])

    def call(query, key, attend):
        return keras.ops.convert_to_numpy(made(query, key, attention_mask=attend, training=False))

    version = f"keras {keras.__version__} on {keras.backend.backend()}"
    save(PACKAGE / "keras.npz", version, weights, call)


def timm() -> None:
    import torch

    from regard.bench.timm_peer import load_timm

    (attention,) = load_timm("layers.attention")
    rng = inputs()[0]
    made = attention.Attention(E, HEADS, qkv_bias=True).eval()
    weights = {name: draw(rng, tuple(x.shape)) for name, x in made.state_dict().items()}
    made.load_state_dict({name: torch.from_numpy(x) for name, x in weights.items()})

    def call(query, key, attend):
        if key is not query:
            return None  # it has no cross-attention
        with torch.no_grad():
            return made(torch.from_numpy(query), attn_mask=torch.from_numpy(attend)[:, None]).numpy()

    version = __import__("timm").__version__
    save(ROOT / "tests" / "golden" / "timm_attention.npz", f"timm {version}", weights, call)


if __name__ == "__main__":
    main()
