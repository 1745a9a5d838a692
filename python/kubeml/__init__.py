"""KubeML's package, so that a program written for it runs unchanged."""
from .dataset import KubeDataset
from .exceptions import *  # noqa: F401,F403: the names are KubeML's
from .network import KubeModel

__all__ = ["KubeDataset", "KubeModel"]
