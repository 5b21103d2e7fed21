"""`tidegate serve`: a gate over HTTP."""

import ipaddress
import logging
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import click

from tidegate.checks import InvalidValueError, StoreError, not_installed
from tidegate.cli import options
from tidegate.cli.options import PATH, count
from tidegate.demo.demo_state import STATE, WINDOW, DriftingStream, config_for
from tidegate.run.config import Config
from tidegate.sources import raw_batch

try:
    from tidegate.serve.access_tokens import Tokens
    from tidegate.serve.gate_runner import GateRunner
    from tidegate.serve.limits import Limits
    from tidegate.serve.quiet import Quiet
    from tidegate.serve.server import LOOPBACK, listen, run, running_gate, server
    from tidegate.serve.training_process import TrainingProcessGate
except ModuleNotFoundError as error:
    raise InvalidValueError(not_installed(error.name, "serve")) from None

EPILOG = """\b
Examples:
  tidegate serve tidegate.state --config tidegate.toml  first start only
  tidegate serve tidegate.state --open                  print a page link
  tidegate serve --demo                                 built-in stream
"""

DEMO_BATCH, DEMO_PAUSE = 64, 0.125
"""Records in a batch, and seconds between batches: one step per second."""


@click.command(epilog=EPILOG)
@click.argument("state", type=PATH, required=False)
@click.option(
    "--config",
    type=PATH,
    help="If STATE is missing, start an empty ledger there: never in a unit. Else apply [publish] "
    "and [compute].",
)
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=count(least=0, most=65535),
    default=8321,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option("--open", "link", is_flag=True, help="Print a link that opens the page.")
@click.option("--demo", is_flag=True, help="Serve a built-in stream, and feed it as you watch.")
@click.option(
    "--rate",
    type=count(),
    default=int(Limits.rate),
    show_default=True,
    help="Requests per second for each token.",
)
@options.form
def serve(  # noqa: PLR0913, PLR0917 (an argument for each option)
    state: Path | None,
    config: Path | None,
    host: str,
    port: int,
    link: bool,
    demo: bool,
    rate: int,
    form: str,
) -> None:
    """Serve the gate of STATE over HTTP: it takes records, and serves releases and a page.

    Clients need a token: see tidegate token. You can stop or kill it at any time.
    """
    settings = Config.load(config) if config else None
    if demo:
        state, link = state or STATE, True
        settings = config_for(state)
    if not state:
        raise click.UsageError("Missing argument 'STATE' (or --demo).")
    lines = logging.StreamHandler()
    lines.addFilter(Quiet())
    logging.basicConfig(format="tidegate: %(message)s", level=logging.WARNING, handlers=[lines])
    if not _is_loopback(host):
        exposed = f"Other machines can reach {host}, and tokens are sent unencrypted"
        click.echo(f"{exposed}: put TLS in front.", err=True)
    limits = Limits(rate=rate, burst=2 * rate)
    with (
        listen(host, port) as listening,
        running_gate(TrainingProcessGate.open(state, settings), limits) as runner,
    ):
        if runner.gate.corrected:
            click.echo(f"tidegate: {runner.gate.corrected}", err=True)
        served = server(runner, state, limits)
        where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        with _announced(state, where, link, form), _fed(runner, demo):
            run(served, listening)
    if form == "table":
        click.echo("Stopped; all acknowledged records are stored.")


@contextmanager
def _announced(state: Path, where: str, link: bool, form: str) -> Iterator[None]:
    """Print the service's address; a link has its own token, revoked when the server stops."""
    tokens, name, secret = Tokens(state), f"link-{secrets.token_hex(4)}", None
    if link:
        secret = tokens.create(name, ["read"], timedelta(days=1))
    create = f"Create a token: tidegate token create {state} --name me --scope read"
    way_in = f"Open {where}/#token={secret}" if link else create
    options.answer({"url": where, "token": secret}, form, f"Serving {state} at {where}", way_in)
    sys.stdout.flush()
    try:
        yield
    finally:
        with suppress(InvalidValueError):  # there was none, or it is already revoked
            tokens.revoke(name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _fed(runner: GateRunner, demo: bool) -> Iterator[None]:
    """Feed the demo's stream while the server runs: the first window at once, then slowly."""
    stopping = threading.Event()
    feeder = threading.Thread(target=_feed, args=(runner, stopping), name="demo")
    if demo:
        feeder.start()
    try:
        yield
    finally:
        stopping.set()
        if demo:
            feeder.join()


def _feed(runner: GateRunner, stopping: threading.Event) -> None:
    stream, at = DriftingStream(), runner.gate.store.count("records")
    while not stopping.is_set():
        X, y = stream.batch(at, DEMO_BATCH)
        try:
            at, _ = runner.take(raw_batch(X, y), size=X.nbytes).result()
        except StoreError as error:
            logging.getLogger(__name__).error("demo stream stopped: %s", error)  # noqa: TRY400
            return
        if at >= WINDOW:
            stopping.wait(DEMO_PAUSE)
