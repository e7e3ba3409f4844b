"""The loops that numba compiles; kernels/compiled.py is the way to them."""
