"""What numpy sees in an npz file, as JSON: dtype, shape and values by name."""
import json
import sys

import numpy as np

with np.load(sys.argv[1], allow_pickle=False) as arrays:
    print(json.dumps({k: {"dtype": str(v.dtype), "shape": v.shape, "values": v.ravel().tolist()} for k, v in arrays.items()}))
