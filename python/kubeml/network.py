"""KubeML's model: troupe.Model by its other name."""
from troupe.model import Model as KubeModel

__all__ = ["KubeModel"]
