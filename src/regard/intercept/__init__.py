"""Attention sites inside any module, seen from the dispatcher. Serves the checker and capture."""

from regard.intercept.observe import Seen as Seen, observe as observe
from regard.intercept.site import Site as Site, Step as Step
