"""Errors that a user can mend: one sentence each, with the exit code that the command line gives."""

USAGE, BAD_DATA, NO_INPUT, CANNOT_CREATE, IO_ERROR = 64, 65, 66, 73, 74


class ToppoError(Exception):
    """A sentence that names the value, the rule and the way out."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        """Keep the sentence and the exit code."""
        super().__init__(sentence)
        self.code = code


class EnvironmentFault(ToppoError):  # noqa: N818 - it names what happened
    """The environment misbehaved: which one, when, and how."""

    def __init__(self, sentence: str) -> None:
        """A fault of the data that the environment gave."""
        super().__init__(sentence, BAD_DATA)


class LearnerFault(ToppoError):  # noqa: N818 - it names what happened
    """The learner produced a value that is not finite."""

    def __init__(self, sentence: str) -> None:
        """A fault of the numbers inside the run."""
        super().__init__(sentence, BAD_DATA)
