"""KubeML's data set: troupe.Dataset by its other name."""
from troupe.dataset import Dataset as KubeDataset

__all__ = ["KubeDataset"]
