"""same_size.py SHARE FILE...: fails unless the sizes of the files differ by at most SHARE of the smallest."""
import os
import sys

sizes = {path: os.path.getsize(path) for path in sys.argv[2:]}
print(sizes)
sys.exit(max(sizes.values()) > (1 + float(sys.argv[1])) * min(sizes.values()))
