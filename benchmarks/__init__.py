"""Measurements that a reader can make again; each module is a command: ``python -m benchmarks.NAME``."""
