"""`python -m bench [NAME ...]` runs all benchmarks, or the named ones."""

import sys
from importlib import import_module

ALL = ("plan", "noise")

for name in sys.argv[1:] or ALL:
    import_module(f"bench.{name}").main()
