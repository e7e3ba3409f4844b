"""How loops are compiled: without the interpreter's lock, and kept on disk.

No product and sum are fused and no sum is reordered, so that every result is the same as that
of the form in NumPy.
"""

from __future__ import annotations

import numba

__all__ = ["comparing", "compiled"]

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
#: For what only compares: no score is NaN, and the sign of a zero does not matter.
comparing = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"nnan", "nsz"})
