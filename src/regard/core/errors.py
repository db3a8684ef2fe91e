"""What goes wrong at the door: one exception per kind of mistake, each with the numbers and the way out in its text."""


class RegardError(Exception):
    """Anything that regard refuses. Catch this to catch all of them."""


class ShapeError(RegardError, ValueError):
    """Sizes that do not go together."""


class DtypeError(RegardError, TypeError):
    """A dtype, device or kind of object that cannot be what was meant."""


class MaskError(RegardError, ValueError):
    """A mask whose meaning is unclear, or that does not fit."""


class CacheError(RegardError, ValueError):
    """A key-value cache that is full, of another batch size, or of another layer."""


class BackendError(RegardError, ValueError):
    """A backend that was asked for and cannot compute this call."""


class DesignError(RegardError, ValueError):
    """A declaration that contradicts itself or cannot be read."""


class TargetError(RegardError, ValueError):
    """A target that cannot be found or loaded."""


class CaptureError(RegardError, ValueError):
    """A capture that was asked for and cannot be made or read."""


class ConversionError(RegardError, ValueError):
    """Weights that cannot be read, do not fit, or do not compute the same after they were converted."""


class AdaptError(RegardError, ValueError):
    """A model of another library in which our attention cannot stand, or did not run."""


class ParallelError(RegardError, RuntimeError):
    """Processes that do not go together, or one that did not answer."""


class BenchError(RegardError, ValueError):
    """A measurement that was asked for and does not exist."""


class PlanError(RegardError, ValueError):
    """Sizes that cannot be planned with."""


class MissingExtraError(RegardError, ImportError):
    """An optional package that is needed for this call; the text names the extra to install."""


class DataError(RegardError, ValueError):
    """Data that cannot be fetched, is not laid out as a recipe reads it, or contradicts itself."""
