"""Fixtures of all tests."""
from __future__ import annotations

import pytest

from .node import Node


@pytest.fixture
def node():
    """A node that workers connect to; ends them with the test."""
    node = Node()
    yield node
    node.close()
