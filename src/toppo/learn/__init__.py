"""Learning: the loop, the networks, and the programs that are compiled for an update."""
