"""The one error that a person is meant to read.

Every fault that a user can mend is raised as `UserError`: what is wrong (file,
line, value) and what to do about it. The stage runner prints it as one line and
exits with code 2; anything else is a bug and exits with code 1.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_NON_FINITE = 3
"""A training worker saw a loss or gradient that is no finite number."""
EXIT_INTERRUPTED = 130
"""A signal ended the work after its state was saved; running again resumes."""


class UserError(Exception):
    """A fault in what the user gave, with its remedy.

    Args:
        problem: what is wrong, naming the file, the line and the value.
        remedy: the imperative sentence that mends it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem.rstrip('.')}. {remedy}")
        self.problem = problem
        self.remedy = remedy


class Interrupted(Exception):
    """A signal asked the work to end; everything worth keeping has been saved."""
