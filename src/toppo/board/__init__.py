"""A live page about runs and studies, served on this machine alone."""
