import os
import sys

from . import worker

if __name__ == "__main__":
    print("imported", sys.argv[1], flush=True)
    worker(
        os.environ["TROUPE_TOKEN"], [int(c) for c in os.environ["TROUPE_CPUS"].split(",") if c], slot=int(os.environ["TROUPE_SLOT"]),
        threads=int(os.environ["TROUPE_THREADS"]), memory=int(os.environ["TROUPE_MEMORY"]),
    )
