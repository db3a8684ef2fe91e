"""How far scores spread with the width of a head, and how large the largest weight becomes, with 1 / sqrt(d_k) and without.

Axes: N queries, S keys, D channels of a head (d_k). Queries and keys are independent standard normal numbers.
The expected largest weight depends on S, which a table without S cannot say: two numbers of keys are printed.
"""

from __future__ import annotations

from regard.bench.timing import normal

WIDTHS = (16, 64, 256, 512)
KEYS = (10, 512)
QUERIES = 4096


def table() -> list[dict]:
    """One dict per width, scale and number of keys: `width`, `scaled`, `keys`, `deviation` of the scores, `largest` (mean over queries)."""
    made = []
    for width in WIDTHS:
        query = normal(QUERIES, width, seed=width)
        others = {keys: normal(keys, width, seed=10_000 + keys) for keys in KEYS}  # not the seed of a query
        for scaled in (False, True):
            for keys in KEYS:
                scores = query @ others[keys].T * (width**-0.5 if scaled else 1.0)
                largest = float(scores.softmax(-1).amax(-1).mean())
                found = {"width": width, "scaled": scaled, "keys": keys, "deviation": float(scores.std())}
                made.append({**found, "largest": largest})
    return made


def scale_rows() -> list[dict]:
    """The table as rows of claims: the deviation must be sqrt(d_k), or 1 with the scale, within 10 %."""
    made = []
    for width in WIDTHS:
        for scaled in (False, True):
            few, many = (x for x in table() if (x["width"], x["scaled"]) == (width, scaled))
            expected = 1.0 if scaled else width**0.5
            near = abs(many["deviation"] / expected - 1) < 0.1
            name = f"d_k = {width}, {'scaled' if scaled else 'unscaled'}: scores deviate by {expected:.1f}"
            said = (
                f"deviation {many['deviation']:.2f}; largest weight {few['largest']:.3f} of {few['keys']} keys, "
                f"{many['largest']:.3f} of {many['keys']}"
            )
            verdict = "confirmed" if near else "not confirmed here"
            made.append({"name": name, "measured": said, "verdict": verdict, "numbers": {"few": few, "many": many}})
    return made
