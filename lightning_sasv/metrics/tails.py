"""Normal and Student's t distributions of single numbers.

``scipy.special`` has them too, but takes longer to import than all else that intervals of a small
score file need.
"""

from __future__ import annotations

import math

import numpy as np


def normal_below(z: float) -> float:
    """Φ(z), the normal distribution.

    Example:
        >>> normal_below(0.0), round(normal_below(-1.96), 6)
        (0.5, 0.024998)
    """
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """Φ⁻¹, by Halley's steps from the rational approximation 26.2.23 of Abramowitz and Stegun.

    Example:
        >>> normal_quantile(0.5), round(normal_quantile(0.975), 6), normal_quantile(0.0)
        (0.0, 1.959964, -inf)
    """
    if share > 0.5:
        return -normal_quantile(1 - share)
    if not share > 0:
        return -math.inf if share == 0 else math.nan
    u = math.sqrt(-2 * math.log(share))
    top = 2.515517 + u * (0.802853 + u * 0.010328)
    z = top / (1 + u * (1.432788 + u * (0.189269 + u * 0.001308))) - u
    for _ in range(3):
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        step = (normal_below(z) - share) / density if density else 0.0
        z -= step / (1 + z * step / 2)
    return z if share < 0.5 else 0.0


def student_below(t: float, degrees: int) -> float:
    """Student's t distribution of a whole number of degrees of freedom.

    With θ = atan(t/√ν) it is ½ + ½ A, and A a finite series in cos²θ (Abramowitz and Stegun, 26.7.3
    and 26.7.4).

    Example:
        >>> student_below(1.0, 1), round(student_below(2.0, 2), 6)
        (0.75, 0.908248)
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    j = np.arange(1, (degrees - odd) // 2, dtype=np.float64)
    ratios = (2 * j - 1 + odd) / (2 * j + odd) * cosine**2
    series = sine * (1 + float(np.cumprod(ratios).sum()))
    if odd:
        series = 2 / math.pi * (angle + (series * cosine if degrees > 1 else 0.0))
    return 0.5 + series / 2


def student_quantile(share: float, degrees: int) -> float:
    """Where Student's t distribution reaches a share, by Newton's steps.

    Example:
        >>> [round(student_quantile(0.975, degrees), 4) for degrees in (1, 9, 47)]
        [12.7062, 2.2622, 2.0117]
    """
    if share < 0.5:
        return -student_quantile(1 - share, degrees)
    half = degrees / 2
    peak = math.lgamma(half + 0.5) - math.lgamma(half) - math.log(math.pi * degrees) / 2
    t, step = 0.0, math.inf  # the distribution is concave above 0: steps never pass the quantile
    while abs(step) > 1e-9 * t:  # the step after a small one is its square
        density = math.exp(peak - (half + 0.5) * math.log1p(t * t / degrees))
        step = (share - student_below(t, degrees)) / density
        t += step
    return t
