"""Figures of the paper, end to end."""
