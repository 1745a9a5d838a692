import sys

from . import zygote

if __name__ == "__main__":
    zygote(sys.argv[1])
