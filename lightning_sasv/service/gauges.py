"""What a service counts, in the text format of Prometheus; nothing of it names anybody."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from lightning_sasv.metrics.drift import class_ratios, estimate_priors
from lightning_sasv.trials import TrialClass

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RECENT = 1000
"""Decisions that quantiles, the share outside and the priors are of."""

FEWEST = 50
"""Fewer decisions give no priors."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SCORES = ("asv_score", "cm_score", "score")


class Gauges:
    """Counts of requests and decisions since the start; memory stays as it is."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._recent: deque[tuple[Any, ...]] = deque(maxlen=RECENT)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests[path, status] += 1
        buckets = self._buckets.setdefault(path, [0] * (len(SECONDS) + 1))
        buckets[bisect_left(SECONDS, seconds)] += 1
        self._seconds[path] = self._seconds.get(path, 0.0) + seconds

    def decided(self, path: str, decision: str, scores: tuple[Any, ...]) -> None:
        """Count a decision: ASV and CM score, fused score, both LLRs, whether it is outside."""
        self._decisions[path, decision] += 1
        self._recent.append(scores)

    def text(self) -> str:
        """Everything, one value a line."""
        return "\n".join([*self._counts(), *self._latency(), *self._of_recent()]) + "\n"

    def _counts(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Answers by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            yield f'sasv_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("decisions_total", "counter", "Decisions by path.")
        for (path, decision), count in sorted(self._decisions.items()):
            yield f'sasv_decisions_total{{path="{path}",decision="{decision}"}} {count}'

    def _latency(self) -> Iterator[str]:
        yield from _head("request_seconds", "histogram", "Time from request to answer.")
        for path, buckets in sorted(self._buckets.items()):
            total = 0
            for limit, count in zip((*SECONDS, "+Inf"), buckets, strict=True):
                total += count
                yield f'sasv_request_seconds_bucket{{path="{path}",le="{limit}"}} {total}'
            yield f'sasv_request_seconds_sum{{path="{path}"}} {self._seconds[path]:.6f}'
            yield f'sasv_request_seconds_count{{path="{path}"}} {total}'

    def _of_recent(self) -> Iterator[str]:
        rows = list(self._recent)
        yield from _head("recent_decisions", "gauge", "Decisions that what follows is of.")
        yield f"sasv_recent_decisions {len(rows)}"
        yield from _head("score", "gauge", "Quantiles of recent scores.")
        for name, column in zip(_SCORES, zip(*rows, strict=True), strict=False):
            known = [value for value in column if value is not None]
            for share, value in zip(QUANTILES, np.quantile(known, QUANTILES), strict=True):
                yield f'sasv_score{{name="{name}",quantile="{share}"}} {value:.6g}'
        far = [row[5] for row in rows if row[5] is not None]
        if far:
            yield from _head("share_outside", "gauge", "Share outside what dev measured.")
            yield f"sasv_share_outside {np.mean(far):.6g}"
        llrs = np.array([row[3:5] for row in rows if None not in row[3:5]], dtype=float)
        if len(llrs) >= FEWEST:
            yield from _head("prior", "gauge", "Priors of recent trials, estimated by EM.")
            priors = estimate_priors(class_ratios(*llrs.T), tolerance=1e-6)
            for code in TrialClass:
                yield f'sasv_prior{{class="{code}"}} {priors[code]:.6g}'


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP sasv_{name} {text}", f"# TYPE sasv_{name} {kind}"
