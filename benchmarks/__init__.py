"""Benchmarks: this package against the bare matrix product, and against its peers.

``python -m benchmarks --help`` from the root of the repository.
"""
