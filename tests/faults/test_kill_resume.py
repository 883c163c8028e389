"""A killed run that is resumed ends with the same bits (more moments: `make faults`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kill_resume import CASES, attack, share


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_runs_resume_to_the_same_bits(case: str, tmp_path: Path) -> None:
    assert attack(case, share(case, 10), seed=0, folder=tmp_path) == []
