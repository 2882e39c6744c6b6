"""Collecting batches: environments and the acting policy, in this process or in others."""
