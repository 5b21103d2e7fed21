"""A service that a test may kill, and a sender that does not mind."""

import sys
from pathlib import Path

from tests.serve.served import config
from tidegate.gate import Gate
from tidegate.serve.limits import Limits
from tidegate.serve.server import kept, listen, server


def main(folder: Path, port: int) -> None:
    """Serve until killed."""
    limits = Limits(rate=10_000, burst=10_000)
    with listen("127.0.0.1", port) as listening, kept(Gate.open(folder, config()), limits) as it:
        print("ready", flush=True)
        server(it, folder, limits).run(sockets=[listening])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
