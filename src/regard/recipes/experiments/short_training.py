"""A short training run of a claim: the loop of the recipes, in a folder that is thrown away, at a fixed number of steps."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from regard.recipes import journal
from regard.recipes.loop import train
from regard.recipes.plan import Plan, Work


def trained(work: Work, plan: Plan) -> tuple[nn.Module, list[float]]:
    """Train; evaluated once, at the end, so that no step is chosen by looking.

    Returns:
        The model of the last step in eval mode, and the loss of every step.
    """
    plan = replace(plan, evaluate=plan.steps, save=plan.steps, watch=0, patience=0)
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        train(work, plan, Path(folder))
        losses = [row["loss"] for row in journal.read(Path(folder)) if "rate" in row]
    return work.model.eval(), losses
