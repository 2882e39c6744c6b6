"""Tuning: a search for good settings whose trials are real runs."""
