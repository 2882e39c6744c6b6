"""The theory of the method, run: finite processes solved exactly, every statement of the paper evaluated on them."""
