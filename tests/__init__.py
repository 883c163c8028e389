"""Tests of the package.

One thread for each process, before numpy is there to ask: several of them on such small problems
only wait for each other, which doubles the processor time of a training.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
