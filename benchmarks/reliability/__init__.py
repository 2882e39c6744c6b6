"""Faults, bad input and hostile files, on purpose and in numbers: ``python -m benchmarks.reliability``."""
