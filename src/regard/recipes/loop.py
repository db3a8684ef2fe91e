"""The training loop, once for all recipes: AdamW, warm-up and cosine, clipping, accumulation, mixed precision, early stop, resume.

Every step is a pure function of the state before it, the seed and the number of the step: the order of the data, dropout and
augmentation are seeded by (seed, step, piece). So a run that was killed and resumed gives the losses of one that was not, bit for bit,
and n processes that share a step draw what one process draws that accumulates over n pieces.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.errors import DataError
from regard.recipes import checkpoint
from regard.recipes.average import Average
from regard.recipes.journal import Journal
from regard.recipes.plan import HALF, Plan, Work, not_finite
from regard.recipes.processes import Processes
from regard.recipes.stop import Stop
from regard.recording.watch import watch


def train(work: Work, plan: Plan, out: Path, *, resume: bool = False) -> dict[str, Any]:
    """Train; leave `journal.jsonl`, checkpoints and the best `model.safetensors` in `out`, and the best weights in the model.

    Returns:
        {"best": the numbers of the best evaluation, "step": its step, "steps": done, "seconds" and "cpu_seconds" (with evaluations;
        of all sittings, as far as they were saved), "interrupted"}.

    Raises:
        DataError: A loss or gradient that is not finite, a parameter that no gradient reaches, or damaged checkpoints.
    """
    all_of_us, begun = Processes.here(), time.process_time()
    model = work.model.to(all_of_us.device)
    groups = work.groups or [{"params": [p for p in model.parameters() if p.requires_grad]}]
    optimizer = torch.optim.AdamW(groups, lr=plan.lr, weight_decay=plan.weight_decay, fused=True)  # else 7 times slower
    factors = [group["lr"] / plan.lr for group in optimizer.param_groups]
    average = Average(model, plan.average)
    scaler = torch.amp.GradScaler(all_of_us.device.type, enabled=plan.precision == "float16")
    state: dict[str, Any] = {"best": None, "scaler": scaler.state_dict()}
    state |= dict.fromkeys(("step", "at", "bad"), 0) | dict.fromkeys(("seconds", "cpu_seconds"), 0.0)
    notes: list[str] = []
    if resume:
        saved, notes = checkpoint.load(out / "checkpoints", model, optimizer, average.kept)
        state |= saved or {}
        scaler.load_state_dict(state["scaler"])
    shared = all_of_us.spread(model)
    runs = torch.compile(shared) if plan.compile else shared
    first = all_of_us.rank == 0
    interrupted = False
    with ExitStack() as open_now:
        journal = open_now.enter_context(Journal(out if first else None, plan.steps, state["step"]))
        stop = open_now.enter_context(Stop())
        file, watched = out / f"watch-{state['step']}.jsonl", plan.watch and first and not plan.compile
        monitor = open_now.enter_context(watch(model, every=plan.watch, out=file)) if watched else None
        for note in notes:
            journal.say(note)
        while state["step"] < plan.steps and not (plan.patience and state["bad"] >= plan.patience) and not interrupted:
            step = state["step"]
            for group, factor in zip(optimizer.param_groups, factors):
                group["lr"] = factor * plan.rate(step)
            loss, norm, interrupted = _step(work, plan, step, runs, model, optimizer, scaler, all_of_us, stop)
            average.add(step + 1)
            state["step"] = step + 1
            journal.row(step + 1, loss=loss, rate=plan.rate(step), gradient=norm)
            if monitor is not None:
                monitor.step(loss)
            if (step + 1) % plan.evaluate == 0 or step + 1 == plan.steps:
                with average.in_model():
                    _judge(work, model, state, journal, out if first else None)
            if first and ((step + 1) % plan.save == 0 or step + 1 == plan.steps or interrupted):
                about = state | {"scaler": scaler.state_dict()} | _spent(state, journal, begun)
                checkpoint.save(out / "checkpoints", step + 1, model, optimizer, about, average.kept)
        spent = _spent(state, journal, begun)
    all_of_us.total(0.0)  # nobody reads before the first process has written
    if state["best"] is not None and not interrupted:
        model.load_state_dict(checkpoint.read_tensors(out / "model.safetensors"))
    return spent | {"best": state["best"], "step": state["at"], "steps": state["step"], "interrupted": interrupted}


def _spent(state: dict[str, Any], journal: Journal, begun: float) -> dict[str, float]:
    """The time of the sittings before, and of this one."""
    cpu = time.process_time() - begun
    return {"seconds": state["seconds"] + journal.seconds, "cpu_seconds": state["cpu_seconds"] + cpu}


def _step(work, plan, step, runs, model, optimizer, scaler, all_of_us, stop) -> tuple[float, float, bool]:
    """One optimiser step over this process's pieces: the loss of the whole batch, the gradient's norm, whether to stop."""
    count = all_of_us.count * plan.accumulate
    numbers = range(all_of_us.rank, count, all_of_us.count)
    indices = work.order(step)
    pieces = []
    for number in numbers:
        _seed(plan.seed, step, 2 * number)
        pieces.append(work.collate(indices[number::count]))
    weight, asked = all_of_us.total(sum(piece.weight for piece in pieces), stop.asked)
    optimizer.zero_grad(set_to_none=True)
    summed = 0.0
    model.train()
    for number, piece in zip(numbers, pieces):
        _seed(plan.seed, step, 2 * number + 1)
        inputs = tuple(x.to(all_of_us.device, non_blocking=True) for x in piece.inputs)
        last = number == numbers[-1] or all_of_us.count == 1
        half = plan.precision in HALF
        with torch.autocast(all_of_us.device.type, HALF[plan.precision]) if half else nullcontext():
            loss = work.loss(runs, inputs)
        with nullcontext() if last else runs.no_sync():
            scaler.scale(loss * (all_of_us.count / weight)).backward()
        summed += float(loss.detach())
    loss = all_of_us.total(summed)[0] / weight
    scaler.unscale_(optimizer)
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), plan.clip))
    if not math.isfinite(loss) or (not math.isfinite(norm) and not scaler.is_enabled()):
        raise DataError(not_finite(model, step, loss))
    silent = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if silent and step == 0:
        raise DataError(
            f"no gradient reaches {', '.join(silent[:5])}; the loss does not depend on them, or freeze them"
        )
    scaler.step(optimizer)
    scaler.update()
    return loss, norm, bool(asked)


def _judge(work: Work, model: nn.Module, state: dict[str, Any], journal: Journal, out: Path | None) -> None:
    """Evaluate, and keep the weights if they are the best so far."""
    model.eval()
    with torch.no_grad():
        numbers = {name: float(value) for name, value in work.evaluate(model).items()}
    before = None if state["best"] is None else state["best"][work.score]
    better = before is None or (numbers[work.score] > before if work.higher else numbers[work.score] < before)
    state["bad"] = 0 if better else state["bad"] + 1
    if better:
        state |= {"best": numbers, "at": state["step"]}
        if out is not None:
            checkpoint.write_tensors(out / "model.safetensors", model.state_dict())
    journal.row(state["step"], **{f"val_{name}": value for name, value in numbers.items()})


def _seed(seed: int, step: int, draw: int) -> None:
    """All of torch's randomness from here on is that of this piece of this step."""
    torch.manual_seed((seed * 1_000_003 + step) * 8_192 + draw)
