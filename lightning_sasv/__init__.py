"""Spoofing-aware speaker verification on PyTorch Lightning.

Nothing heavy is imported here; import what you need from the subpackages ``metrics``, ``fusion``,
``decisions``, ``data``, ``models``, ``callbacks``, ``scores`` and ``report``.
"""

__version__ = "0.1.0"
