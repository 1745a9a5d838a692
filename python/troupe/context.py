"""The invocation that this process runs now, between main() and start()."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

if TYPE_CHECKING:
    from .model import Model
    from .request import Request


class Invocation:
    """One request on its way through the user's main() into start()."""

    def __init__(self, request: "Request", execute: Callable[["Invocation", "Model"], Any]) -> None:
        self.request = request
        self.execute = execute  # what start() does
        self.started: Optional["Model"] = None  # the model whose start() was called
        self.answer: Any = None  # what execute returned
        self.method = "main"  # of the user's that runs, "" where ours does
        self.warnings: List[str] = []

    def warn(self, text: str) -> None:
        """Tell the user, once however many functions and rounds say the same."""
        if text not in self.warnings:
            self.warnings.append(text)


current: Optional[Invocation] = None


def arguments() -> Dict[str, str]:
    """The user's ``--arg k=v``, for main() to build the network by; none outside
    of a worker. In a model they are ``self.args``."""
    return dict(current.request.args) if current else {}
