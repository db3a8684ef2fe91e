"""The code under test, called without leaving a trace: copies, dtypes, seeds, modes, and every global put back.

A subject is a module or a plain function. `call` never touches the object that the user handed in.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks.defaults import put_back
from regard.checks.kernels import safe_kernels
from regard.checks.signatures import signature_of

NOISE = (
    0.1  # how far an exactly constant parameter is moved, relative to its value (or to 1 / sqrt(fan in) if it is zero)
)


class Swallow(io.TextIOBase):
    """Where prints of the subject go: nowhere, without filling memory."""

    def write(self, text: str) -> int:
        return len(text)


SMALL = 0.05  # layer scales of 1e-5 and the like: a branch behind them is as good as hidden


@contextlib.contextmanager
def untouched_globals(seed: int) -> Iterator[None]:
    """Seed torch, silence warnings and printing, and put back seed, dtype, grad mode, threads and deterministic flags."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic, grad = torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), contextlib.redirect_stdout(Swallow()):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            if torch.are_deterministic_algorithms_enabled() != deterministic:  # setting it imports inductor: 1.2 s
                torch.use_deterministic_algorithms(deterministic)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


class Subject:
    """A module or function to be examined.

    `pristine` is the user's own initialisation; all probing but that of initialisation uses a copy in which parameters
    that are exactly constant (zero-initialised gates, output projections, biases; not ones) have been moved a little, since a
    branch that multiplies by zero hides everything behind it.
    """

    def __init__(self, obj: Callable[..., Any], *, seed: int = 0) -> None:
        self.seed = seed
        self.is_module = isinstance(obj, nn.Module)
        self.pristine: Any = copy.deepcopy(obj) if self.is_module else obj
        self.moved: list[str] = []
        self.dtype = torch.float32
        self.stateful = False  # does a call change what the next call gives?
        self._source = self._moved_copy()
        self._ready: dict[tuple[torch.dtype, bool], Any] = {}
        self._trial: Any = None

    @property
    def forward(self) -> Callable[..., Any]:
        if self.is_module:
            return self.pristine.forward
        plain = inspect.isroutine(self.pristine) or inspect.isclass(self.pristine) or isinstance(self.pristine, partial)
        return self.pristine if plain else self.pristine.__call__

    def signature(self) -> inspect.Signature:
        return signature_of(self.forward)

    def _moved_copy(self) -> Any:
        if not self.is_module:
            return self.pristine
        module = copy.deepcopy(self.pristine)
        generator = torch.Generator().manual_seed(self.seed + 17)
        with torch.no_grad():
            for name, p in module.named_parameters():
                if (
                    p.numel() > 1
                    and p.is_floating_point()
                    and bool((p == p.flatten()[0]).all())
                    and float(p.flatten()[0]) != 1.0
                ):
                    p.copy_(_moved(p, generator))
                    self.moved.append(name)
                elif p.numel() == 1 and float(p.abs().max()) == 0.0 and p.is_floating_point():
                    p.fill_(0.5)
                    self.moved.append(name)
        return module

    def instance(self, *, train: bool = False, dtype: torch.dtype | None = None, fresh: bool | None = None) -> Any:
        """The moved copy in a mode and dtype; a new one when `fresh` (default: when the subject keeps state)."""
        if not self.is_module:
            return self._source
        dtype = dtype or self.dtype
        key = (dtype, train)
        if key not in self._ready:
            self._ready[key] = as_dtype(copy.deepcopy(self._source), dtype)
            self._ready[key].train(train)  # its own train() may forget to return it
        fresh = (self.stateful or train) if fresh is None else fresh
        return copy.deepcopy(self._ready[key]) if fresh else self._ready[key]

    def trial(self) -> Any:
        """A copy for attempts that may fail half way; nothing else uses it."""
        if not self.is_module:
            return self._source
        if self._trial is None or self._trial[0] != self.dtype or numbers(self._trial[1]) != self._trial[2]:
            made = as_dtype(copy.deepcopy(self._source), self.dtype)
            made.train(False)  # its own train() may forget to return it
            self._trial = (self.dtype, made, numbers(made))  # a call that failed may have changed a size on the way
        return self._trial[1]

    def call(
        self,
        kwargs: dict[str, Any],
        *,
        train: bool = False,
        grad: bool = False,
        dtype: torch.dtype | None = None,
        seed: int | None = None,
        module: Any = None,
    ) -> Any:
        """The raw result of one call. Tensors in `kwargs` are handed over as copies."""
        module = self.instance(train=train, dtype=dtype) if module is None else module
        handed = {k: clone(v) for k, v in kwargs.items()}
        with untouched_globals(self.seed if seed is None else seed), torch.set_grad_enabled(grad):
            return invoke(module, handed)


def _moved(p: Tensor, generator: torch.Generator) -> Tensor:
    """A constant parameter with noise: relative to its value, or small if it is zero."""
    value = float(p.detach().flatten()[0])
    fan_in = p[0].numel() if p.ndim > 1 else 1
    if 0.0 < abs(value) < SMALL:
        return 0.5 + NOISE * torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
    size = NOISE * abs(value) if value else (fan_in**-0.5 if p.ndim > 1 else NOISE)
    noise = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
    return p.detach() + size * noise


def invoke(module: Any, kwargs: dict[str, Any]) -> Any:
    """Call with positional arguments where the names begin with '*' (variadic), by keyword elsewhere."""
    positional = [kwargs[k] for k in sorted(k for k in kwargs if k.startswith("*"))]
    with safe_kernels(kwargs), put_back(module):  # a list as a default argument would remember this call
        return module(*positional, **{k: v for k, v in kwargs.items() if not k.startswith("*")})


def clone(value: Any) -> Any:
    """A copy of a nest of tensors; anything else is handed on."""
    if isinstance(value, Tensor):
        return value.detach().clone() if not value.requires_grad else value
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(clone(v) for v in value)
    if type(value) is dict:
        return {k: clone(v) for k, v in value.items()}
    return value


def as_dtype(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The module with parameters, buffers and plain floating tensors in its attributes cast to `dtype`, in place.

    Complex buffers (angles of rotary positions) stay complex: `module.to(dtype)` would drop their imaginary part.
    """
    other = torch.complex128 if dtype == torch.float64 else torch.complex64
    module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t.to(other) if t.is_complex() else t)
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor) and value.is_floating_point() and not isinstance(value, nn.Parameter):
                setattr(part, name, value.to(dtype))
    return module


def numbers(module: nn.Module) -> list[Any]:
    """Every plain number and tuple that the parts of a module keep, in order."""
    plain = (int, float, tuple)
    return [v for part in module.modules() for v in vars(part).values() if type(v) in plain]


def describe_error(error: BaseException) -> str:
    """One line of an exception, short enough for a report."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}"


def line_in(error: BaseException, function: Any) -> int:
    """The last line of a function that an error passed through: how far a call came. 0 if it never ran."""
    code, line, trace = getattr(function, "__code__", None), 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
