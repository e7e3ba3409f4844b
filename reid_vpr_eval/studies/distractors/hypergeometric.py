"""The hypergeometric law of drawn items that stand above: where it is, and its weights.

Of N pool items `a` stand above an item; n are drawn without replacement, and A of those
stand above: P(A = k) = C(a, k) C(N - a, n - k) / C(N, n).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["beta_binomial", "weights", "window"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Each tail that is left out has a probability of at most exp(-40) = 4e-18.
_EXPONENT = 40.0


def window(pool: Ints, above: Ints, drawn: Ints) -> tuple[Ints, Ints]:
    """Return the first and last value of A outside which the law holds less than 1e-17.

    Hoeffding (1963, theorem 4): the tails are no larger than those bounds that hold for draws
    with replacement, so Bernstein's: P(|A - mean| >= t) <= 2 exp(-t^2 / (2 (v + t/3))), where v
    is the variance of the binomial law. The law is the same with the roles of `above` and
    `drawn` exchanged, and the same but for its sign with items left instead of drawn; v is
    the smallest of these four. It is at most twice the variance of A, so that the window ends
    13 standard deviations from the mean, or fewer, plus 27.

    Parameters
    ----------
    pool, above, drawn : int64 arrays (n,)
        N, a and n.

    Returns
    -------
    low, high : int64 arrays (n,)

    Examples
    --------
    >>> window(np.array([500_000, 10]), np.array([20_000, 4]), np.array([10_000, 8]))
    (array([211,   2]), array([589,   4]))
    """
    share, part = above / np.maximum(pool, 1), drawn / np.maximum(pool, 1)
    mean = share * drawn
    spread = np.minimum(
        np.minimum(drawn, pool - drawn) * share * (1 - share),
        np.minimum(above, pool - above) * part * (1 - part),
    )
    third = _EXPONENT / 3
    reach = third + np.sqrt(third**2 + 2 * _EXPONENT * spread)
    low = np.maximum(np.ceil(mean - reach), np.maximum(0, above + drawn - pool))
    high = np.minimum(np.floor(mean + reach), np.minimum(above, drawn))
    return low.astype(np.int64), high.astype(np.int64)


def weights(pool: Ints, above: Ints, drawn: Ints, low: Ints, width: int) -> Floats:
    """Return numbers proportional to P(A = low), P(A = low + 1) ..., (n, width).

    By the ratio of neighbours, (a - k)(n - k) / ((k + 1)(N - a - n + k + 1)), from 1 at `low`;
    0 beyond the largest value of A. Numerators and denominators are exact below 2^53.
    """
    k = low[:, None] + np.arange(width - 1, dtype=np.float64)
    ratio = (above[:, None] - k) * (drawn[:, None] - k)
    k += 1
    ratio /= k * ((pool - above - drawn)[:, None] + k)
    out = np.empty((len(low), width))
    out[:, 0] = 1.0
    np.cumprod(ratio, axis=1, out=out[:, 1:])
    return out


def beta_binomial(n: int, before: float, after: float) -> Floats:
    """Return the probabilities of 0 to n of the beta-binomial law.

    It is the number of n further items that come before the `before`-th of ``before + after - 1``
    items in a random order (the negative hypergeometric law where these are whole numbers).

    >>> beta_binomial(2, 1, 1)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    k = np.arange(n, dtype=float)
    ratio = (n - k) * (before + k) / ((k + 1) * (after + n - k - 1))
    peak = int(np.argmax(np.append(ratio, 0.0) < 1))
    down = np.cumprod(1 / ratio[:peak][::-1])[::-1]
    out = np.concatenate([down, [1.0], np.cumprod(ratio[peak:])])
    return np.asarray(out / out.sum())
