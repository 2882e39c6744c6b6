"""The theory of the paper, checked: every statement is evaluated on finite processes that are solved exactly."""
