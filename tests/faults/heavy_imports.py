"""What the processes of ``forks`` need, imported once by the server that they are forked from."""

from __future__ import annotations

import torch

import lightning_sasv.commands.table
import lightning_sasv.commands.train  # noqa: F401
import tests.faults.test_atomic  # noqa: F401

torch.set_num_threads(1)
