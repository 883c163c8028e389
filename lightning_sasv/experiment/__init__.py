"""Experiments of several seeds and systems: training, evaluation, launching."""
