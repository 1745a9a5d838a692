"""What the SDK raises: the exceptions of KubeML, by the same names."""
from __future__ import annotations

from typing import Any, Optional


class KubeMLException(Exception):
    """The root of them all.

    ``message`` is one line for a person, ``status_code`` the HTTP status that
    says whose fault it is: 4xx the program's or the request's, 5xx ours.
    """

    def __init__(self, message: str = "", status_code: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict:
        """The body of an HTTP answer."""
        return {"error": self.message, "code": self.status_code}


class _Coded(KubeMLException):
    """An exception whose status is that of its class."""

    status = 500
    text = "internal error"

    def __init__(self, cause: Any = None, status_code: Optional[int] = None) -> None:
        message = self.text if cause is None else str(cause)
        super().__init__(message, self.status if status_code is None else status_code)


class MergeError(_Coded):
    """The answers of a round could not be merged."""

    status, text = 500, "the models could not be merged"


class DataError(_Coded):
    """The data do not fit the program."""

    status, text = 400, "no data, or not what the program expects"


class InvalidFormatError(_Coded):
    """A method returned, or a file holds, what it must not."""

    status, text = 400, "not in the expected format"


class StorageError(_Coded):
    """A file of a model or data set could not be read or written."""

    status, text = 500, "the storage cannot be used"


class DatasetNotFoundError(_Coded):
    """There is no such data set."""

    status, text = 404, "no such data set"


class InvalidArgsError(_Coded):
    """The program or its arguments are used in a way that cannot work."""

    status, text = 400, "invalid arguments"


class UnsupportedError(KubeMLException):
    """A tensor or state that a model file cannot hold; the text has the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 400)


class NotFiniteError(KubeMLException):
    """A loss or accuracy that is NaN or infinite."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 422)


class JobError(KubeMLException):
    """A job that :func:`troupe.run` started did not succeed.

    ``exit_code`` is that of the command, ``result`` what it printed (None when
    the job never began).
    """

    def __init__(self, message: str, exit_code: int, result: Any = None) -> None:
        super().__init__(message, 500)
        self.exit_code = exit_code
        self.result = result
