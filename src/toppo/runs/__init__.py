"""One run: its spec, its directory, its life."""
