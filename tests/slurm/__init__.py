"""The program on a real SLURM of two nodes, on one machine: ``make slurm-test``.

Not part of ``make test``: it installs packages of the system and needs root.
"""
