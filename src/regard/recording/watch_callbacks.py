"""`watch` inside other people's loops: a callback for `transformers.Trainer` and one for Lightning. Both import late.

Each makes its watch when training begins, on the model that is trained, and keeps it as `callback.run`.
"""

from __future__ import annotations

from typing import Any

from regard.core.errors import MissingExtraError
from regard.recording.watch import watch


def for_trainer(**options: Any) -> Any:
    """A `transformers.TrainerCallback`: `Trainer(..., callbacks=[regard.watch.for_trainer(out="run.jsonl")])`.

    Args:
        options: Those of `watch`.

    The loss of each recorded step is the model's own `output.loss`; the means that Trainer logs are added, and its evaluations are
    compared with training from their second batch on. With gradient accumulation the first pass of a step is looked at.
    """
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise MissingExtraError("for_trainer needs transformers: pip install 'regard[hf]'") from error

    class WatchTrainer(TrainerCallback):
        """Follows a Trainer's steps."""

        run: Any = None
        _evaluating = False

        def on_train_begin(self, args, state, control, model: Any = None, **kwargs):
            self.run = watch(model, **options)

        def on_step_end(self, args, state, control, **kwargs):
            self.run.step()

        def on_log(self, args, state, control, logs=None, **kwargs):
            if self.run is not None and logs and "loss" in logs:
                self.run.log(loss=logs["loss"])

        def on_prediction_step(self, args, state, control, **kwargs):
            if self.run is not None and not self._evaluating:
                self._evaluating = True
                self.run.begin_validation()

        def on_evaluate(self, args, state, control, metrics=None, **kwargs):
            if self._evaluating:
                self._evaluating = False
                self.run.end_validation()
            if self.run is not None and metrics and "eval_loss" in metrics:
                self.run.log(validation_loss=metrics["eval_loss"])

        def on_train_end(self, args, state, control, **kwargs):
            self.run.close()

    return WatchTrainer()


def for_lightning(**options: Any) -> Any:
    """A Lightning callback: `Trainer(callbacks=[regard.watch.for_lightning(out="run.jsonl")])`.

    Args:
        options: Those of `watch`, and `validation_loss`: the name under which the module logs it, "val_loss" if not given.

    The loss is what `training_step` returns. Steps are batches, as Lightning counts them.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError as error:
            raise MissingExtraError("for_lightning needs lightning: pip install lightning") from error
    name = options.pop("validation_loss", "val_loss")

    class WatchLightning(Callback):
        """Follows a Lightning trainer's steps."""

        run: Any = None

        def on_train_start(self, trainer, pl_module):
            self.run = watch(pl_module, **options)

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self.run.step(loss)

        def on_validation_start(self, trainer, pl_module):
            if self.run is not None:
                self.run.begin_validation()

        def on_validation_end(self, trainer, pl_module):
            if self.run is not None:
                self.run.end_validation()
                if name in trainer.callback_metrics:
                    self.run.log(validation_loss=float(trainer.callback_metrics[name]))

        def on_train_end(self, trainer, pl_module):
            self.run.close()

    return WatchLightning()
