"""`regard plan`: the plan as text or JSON on stdout, and an exit status that says whether something exact fits. Needs no torch."""

from __future__ import annotations

import json
from typing import Annotated

import typer

OK, NOTHING_FITS = 0, 1


def plan(
    embed_dim: Annotated[int, typer.Option(help="width of the tokens")],
    heads: Annotated[int, typer.Option(help="query heads")],
    kv_heads: Annotated[int | None, typer.Option(help="key-value heads; as many as query heads when not said")] = None,
    batch: Annotated[int, typer.Option(help="samples")] = 1,
    length: Annotated[int, typer.Option(help="tokens of a sample")] = 512,
    layers: Annotated[int, typer.Option(help="blocks of attention and feed-forward")] = 1,
    feed_forward: Annotated[int | None, typer.Option(help="hidden width; 4 x embed-dim when not said")] = None,
    vocab: Annotated[int, typer.Option(help="words of the embedding and of the output layer")] = 0,
    dtype: Annotated[str, typer.Option(help="fp32, bf16 or fp16")] = "fp32",
    memory: Annotated[str | None, typer.Option(help="what the device has, such as 8GB")] = None,
    train: Annotated[bool, typer.Option("--train", help="a training step with AdamW")] = False,
    generate: Annotated[bool, typer.Option("--generate", help="a prompt that fills key-value caches")] = False,
    causal: Annotated[bool, typer.Option("--causal", help="a token sees only those before it")] = False,
    window: Annotated[int | None, typer.Option(help="keys that a token sees, itself included")] = None,
    ranks: Annotated[int, typer.Option(help="devices that share each sequence")] = 1,
    format: Annotated[str, typer.Option(help="text or json")] = "text",
) -> None:
    """Say what a Transformer takes before it is made: parameters, FLOPs, peak of memory, what fits, and what to choose.

    Exit status: 1 if no exact way to compute attention fits into --memory, else 0; what was asked wrongly exits with 2.
    """
    sizes = dict(locals())
    del sizes["format"]
    raise typer.Exit(plan_session(format, sizes))


def plan_session(format: str, sizes: dict) -> int:
    """Print the plan; the status is 1 where a memory was given and no exact way to compute attention fits into it, 2 for a refusal."""
    from regard.advise.planning import plan as planned
    from regard.core.errors import PlanError

    try:
        if format not in ("text", "json"):
            raise PlanError(f"format {format!r} is not one of text, json")
        made = planned(**sizes)
    except PlanError as error:
        typer.echo(f"regard: {error}", err=True)
        return 2
    typer.echo(json.dumps(made.as_dict(), indent=1) if format == "json" else str(made))
    exact = [way for way in made.ways if way.name != "linear"]
    return NOTHING_FITS if made.memory is not None and not any(way.fits for way in exact) else OK
