"""Print the tables of docs/vision.md in Markdown. Run: OMP_NUM_THREADS=1 python docs/make_vision_numbers.py"""

from __future__ import annotations

from regard.bench.gate_costs import gate_costs
from regard.bench.vision import rows


def main() -> None:
    print("| gate | parameters | MFLOPs per image | forward, ms | forward + backward, ms |\n|---|---|---|---|---|")
    for row in gate_costs():
        cells = row["name"], f"{row['parameters']:,}", f"{row['flops'] / 1e6:.2f}", f"{row['forward']:.1f}"
        print("| " + " | ".join([*cells, f"{row['training']:.1f}"]) + " |")
    print("\n| line | ours, ms | timm, ms | timm / ours | target | |\n|---|---|---|---|---|---|")
    for row in rows():
        cells = row["name"], f"{row['ours']:.1f}", f"{row['peer']:.1f}", f"{row['ratio']:.2f}", f"{row['target']:.1f}"
        print("| " + " | ".join([*cells, row["verdict"]]) + " |")


if __name__ == "__main__":
    main()
