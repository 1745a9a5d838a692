"""A program out of a notebook: what its cells define."""
from __future__ import annotations

import ast
from typing import Any, List, Mapping

from .exceptions import InvalidArgsError


def definitions(namespace: Mapping[str, Any], name: str) -> str:
    """The source of a module with the imports, functions, classes and literal
    constants of all cells run so far, in that order. What cells compute, draw or
    print is left out.

    namespace: the notebook's, where IPython keeps the cells. InvalidArgsError
    when there are none, or none defines name.
    """
    cells = namespace.get("In")
    if not isinstance(cells, list):
        raise InvalidArgsError(f"the source of {name} is not known: put it into a file, or run this in a notebook")
    kept: List[ast.stmt] = []
    for cell in cells:
        kept.extend(s for s in _statements(cell) if _defines(s))
    if name not in {getattr(s, "name", None) for s in kept}:
        raise InvalidArgsError(f"no cell of this notebook defines {name}: put it into one, or into a file")
    return "\n\n".join(ast.unparse(s) for s in kept) + "\n"


def _statements(cell: str) -> List[ast.stmt]:
    """The statements of a cell, without IPython's commands."""
    if cell.lstrip().startswith("%%"):
        return []
    lines = ("" if line.lstrip().startswith(("%", "!")) else line for line in cell.splitlines())
    try:
        return ast.parse("\n".join(lines)).body
    except SyntaxError:  # a cell that failed, or that only IPython understands
        return []


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    try:
        ast.literal_eval(statement.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
