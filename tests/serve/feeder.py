"""A service that a test may kill, and a sender that does not mind."""

import sys
from pathlib import Path

from tests.serve.served import config
from tidegate.gate import Gate
from tidegate.serve.apart import ApartGate
from tidegate.serve.limits import Limits
from tidegate.serve.server import kept, listen, run, server


def main(kind: type[Gate], folder: Path, port: int) -> None:
    """Serve until killed."""
    limits = Limits(rate=10_000, burst=10_000)
    with listen("127.0.0.1", port) as listening, kept(kind.open(folder, config()), limits) as it:
        print("ready", flush=True)
        run(server(it, folder, limits), listening)


if __name__ == "__main__":
    main({"here": Gate, "apart": ApartGate}[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]))
