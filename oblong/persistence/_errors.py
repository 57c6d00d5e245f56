"""The one error of model files."""


class ModelFileError(ValueError):
    """A model file that cannot be used, or a model that cannot be saved.

    The message is one line: the file, and what is wrong with it.

    Parameters
    ----------
    source : str
        Name of the file.
    problem : str
        What was expected and what was found.
    """

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"{source}: {problem}")

    def __reduce__(self) -> tuple:
        return type(self), (self.source, self.problem)
