"""`python -m bench [NAME ...]` runs all benchmarks, or the named ones."""

import os
import platform
import sys
from importlib import import_module

ALL = ("plan", "noise", "learn", "accuracy", "gate", "serve", "brokers", "scale")

load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {load}")
for name in sys.argv[1:] or ALL:
    import_module(f"bench.{name}").main()
