"""What inputs matter, beyond raw weights: rollout, gradient x attention, generic relevance, norms of what is moved, value zeroing.

Axes: L layers, H heads, T queries, S keys (T = S: self-attention), Dv channels of a value, E width. Weights are (H, T, S), one
sample. Fused kernels are kept: their backward operator receives what dL/dA is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.core.errors import CaptureError
from regard.intercept.observe import observe
from regard.recording.heads import four_axes


def rollout(weights: Sequence[Tensor], *, residual: float = 0.5, query: int | None = None) -> Tensor:
    """Attention rollout: the product of the layers' maps, each mixed with the residual path.

    R = A_L ... A_1 with A_l = (1 - residual) mean_h(W_l) + residual I, rows divided by their sum. Unit: share, rows sum to 1.
    Source: Abnar & Zuidema 2020, arXiv:2005.00928.

    Args:
        weights: Per layer, (H, T, T), first layer first.
        query: One row only: a vector recursion, no T x T product.

    Returns:
        (T, T), or (T,) for one query.
    """
    size = _square(weights)
    row = torch.eye(size) if query is None else torch.nn.functional.one_hot(torch.tensor(query), size).float()
    for layer in reversed(weights):
        mixed = layer.float().mean(0)
        mixed = mixed / mixed.sum(-1, keepdim=True).clamp(min=1e-30)
        row = (1 - residual) * (row @ mixed) + residual * row
    return row


def gradient_times_attention(weights: Tensor, gradients: Tensor) -> Tensor:
    """(T, S): mean over heads of max(W * dL/dW, 0). Unit: that of the target. Source: Chefer et al. 2021, arXiv:2103.15679, eq. 5."""
    return (weights * gradients).clamp(min=0).mean(0)


def relevance(weights: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Generic relevance of self-attention layers, (T, T): R starts as I, and each layer adds (gradient x attention) R.

    Row i, column j: how much token j mattered for what stands at i; read the row of the token whose output was the target.
    Source: Chefer, Gur & Wolf 2021, arXiv:2103.15679, eqs. 5 and 6.
    """
    result = torch.eye(_square(weights))
    for layer, gradient in zip(weights, gradients):
        result = result + gradient_times_attention(layer.float(), gradient.float()) @ result
    return result


def norm_weighted(weights: Tensor, values: Tensor, project: Tensor) -> Tensor:
    """(T, S): norm of sum_h w_hij v_hj W_O_h, the vector that key j sends to query i. Unit: that of the residual stream.

    Source: Kobayashi et al. 2020, arXiv:2004.10102, eq. 5, with the heads added before the norm.

    Args:
        weights: (H, T, S).
        values: (H, S, Dv).
        project: (E, H * Dv), the weight of the output projection.

    Raises:
        CaptureError: `project` does not have H * Dv columns.
    """
    H, _, Dv = values.shape
    if project.shape[1] != H * Dv:
        raise CaptureError(f"the projection has {project.shape[1]} columns; {H} heads of {Dv} channels need {H * Dv}")
    sent = torch.einsum(
        "hsd,ehd->hse", values.float(), project.float().unflatten(1, (H, Dv))
    )  # what each head would send
    inner = torch.einsum("hse,gse->shg", sent, sent)  # norms of sums without a (T, S, E) tensor
    return torch.einsum("hts,shg,gts->ts", weights.float(), inner, weights.float()).clamp(min=0).sqrt()


def attention_gradients(
    model: nn.Module, run: Callable[[], object], target: Callable[[object], Tensor], *, sample: int = 0
) -> list[tuple[str, Tensor, Tensor]]:
    """Weights and their gradients, layer by layer, from one forward and one backward pass with the model's own kernels.

    Args:
        run: Calls the model, as `lambda: model(**inputs)`; gradients must be on.
        target: Turns what `run` returned into one number, as `lambda out: out.logits[0, -1, 42]`.

    Returns:
        Per layer: (module path, weights (H, T, S), d target / d weights (H, T, S)). No `.grad` of the model is touched.

    Raises:
        CaptureError: No layer, no parameter with a gradient, or a layer whose backward was not seen.
    """
    watched = [p for p in model.parameters() if p.requires_grad]
    if not watched or not torch.is_grad_enabled():
        raise CaptureError("gradients of attention need parameters that require them and torch.enable_grad()")
    with observe(model, copy=False) as seen:
        number = target(run())
        torch.autograd.grad(number, watched, allow_unused=True)
    found = []
    for site in seen.sites:
        attention = four_axes(site)
        weights = site.weights()
        if attention is None or weights is None:
            continue
        if site.grad_weights is None:
            raise CaptureError(
                f"no gradient reached the attention of {site.path or 'the model'} ({site.kernel}, {site.where})"
            )
        shape = (attention.batch, attention.heads, *weights.shape[-2:])
        found.append((site.path, weights.reshape(shape)[sample], site.grad_weights.reshape(shape)[sample]))
    if not found:
        raise CaptureError(f"no attention seen in {type(model).__name__} while it ran")
    return found


def value_zeroing(run: Callable[[int | None], Tensor], tokens: int) -> Tensor:
    """(T, S): 1 - cosine between a layer's output at i and the same with the value of token j set to zero. Unit: 0 to 2.

    Source: Mohebbi et al. 2023, arXiv:2301.12971. Costs one run per token: for short inputs.

    Args:
        run: `run(j)` gives the layer's output (T, E) with the value of token j zeroed; `run(None)` as it is. See `zeroed_value`.
        tokens: S.
    """
    plain = run(None).float()
    changed = [1 - torch.nn.functional.cosine_similarity(plain, run(j).float(), dim=-1) for j in range(tokens)]
    return torch.stack(changed, -1)


@contextmanager
def zeroed_value(project: nn.Module, token: int | None) -> Iterator[None]:
    """While active, the output of a value projection, (B, S, ...), is 0 at one token; nothing for None.

    The fitting `run` for `value_zeroing`: `with zeroed_value(layer.v_proj, j): return layer(x)[0]`.
    """

    def hook(module, inputs, output: Tensor) -> Tensor:
        keep = torch.ones(output.shape[1], dtype=output.dtype, device=output.device)
        keep[token] = 0
        return output * keep.view(1, -1, *[1] * (output.dim() - 2))

    handle = project.register_forward_hook(hook) if token is not None else None
    try:
        yield
    finally:
        if handle is not None:
            handle.remove()


def _square(weights: Sequence[Tensor]) -> int:
    if not weights:
        raise CaptureError("there are no layers to combine")
    sizes = {tuple(w.shape[-2:]) for w in weights}
    if len(sizes) > 1 or any(rows != columns for rows, columns in sizes):
        raise CaptureError(f"the layers' maps are {sorted(sizes)}; self-attention maps of one size are needed")
    return weights[0].shape[-1]
