"""Keras on torch, and quiet, before anything imports it."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
