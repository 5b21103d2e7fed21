"""`tidegate serve`: a gate over HTTP."""

import ipaddress
import json
import logging
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import click

from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli import options
from tidegate.cli.types import PATH, count
from tidegate.demo.demo_state import STATE, WINDOW
from tidegate.demo.demo_state import config as demo_config
from tidegate.demo.drifting_stream import DriftingStream
from tidegate.gate.config import Config
from tidegate.gate.sources import raw_batch

try:
    from tidegate.serve.gate_runner import GateRunner
    from tidegate.serve.limits import Limits
    from tidegate.serve.quiet import Quiet
    from tidegate.serve.server import LOOPBACK, kept, listen, run, server
    from tidegate.serve.tokens import Tokens
    from tidegate.serve.training_process import TrainingProcessGate
except ModuleNotFoundError as error:
    missing = f"{error.name} is not installed: pip install 'tidegate[serve]'"
    raise InvalidValueError(missing) from None

EPILOG = """\b
Examples:
  tidegate serve tidegate.state --config tidegate.toml   make the state if it is not there
  tidegate serve tidegate.state --open                   and a link to its page
  tidegate serve --demo                                  a stream to look at
"""

DEMO_BATCH, DEMO_PAUSE = 64, 0.125
"""Records that arrive at once, and seconds between them: a step each second."""


@click.command(epilog=EPILOG)
@click.argument("state", type=PATH, required=False)
@click.option("--config", type=PATH, help="What the gate does, if there is no state.")
@click.option("--host", default=LOOPBACK, show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=count(least=0, most=65535), default=8321, show_default=True, help="0: any."
)
@click.option("--open", "link", is_flag=True, help="Print a link to the page that opens it.")
@click.option("--demo", is_flag=True, help="Feed a built-in stream, so that there is news.")
@click.option(
    "--rate", type=count(), default=int(Limits.rate), show_default=True, help="Requests/s a token."
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
    """Serve the gate of STATE over HTTP: records in, releases and public numbers out.

    Nobody can do anything without a token: see tidegate token. Stop it at any time and in any way.
    """
    known = None if config is None else Config.load(config)
    if demo:
        state, known, link = state or STATE, demo_config(DriftingStream()), True
    if state is None:
        raise click.UsageError("Missing argument 'STATE' (or --demo).")
    lines = logging.StreamHandler()
    lines.addFilter(Quiet())
    logging.basicConfig(format="tidegate: %(message)s", level=logging.WARNING, handlers=[lines])
    if not _is_loopback(host):
        click.echo("Others can reach this. Put TLS in front: tokens travel as they are.", err=True)
    limits = Limits(rate=rate, burst=2 * rate)
    with (
        listen(host, port) as listening,
        kept(TrainingProcessGate.open(state, known), limits) as runner,
    ):
        served = server(runner, state, limits)
        where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        with _shown(state, where, link, form), _fed(runner, demo):
            run(served, listening)
    if form == "table":
        click.echo("Stopped; all that was acknowledged is kept.")


@contextmanager
def _shown(state: Path, where: str, link: bool, form: str) -> Iterator[None]:
    """Say where the service is; a link has a token of its own, which ends with the server."""
    tokens, name, secret = Tokens(state), f"link-{secrets.token_hex(4)}", None
    if link:
        secret = tokens.create(name, ["read"], timedelta(days=1))
    if form == "json":
        click.echo(json.dumps({"url": where, "token": secret}))
    else:
        click.echo(f"Serving {state} at {where}")
        make = f"Make a token: tidegate token create {state} --name me --scope read"
        click.echo(f"Open {where}/#token={secret}" if link else make)
    sys.stdout.flush()
    try:
        yield
    finally:
        with suppress(InvalidValueError):  # none was made, or it is revoked
            tokens.revoke(name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _fed(runner: GateRunner, demo: bool) -> Iterator[None]:
    """Feed the demo's stream while the server runs: the first window at once, then at a pace."""
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
            logging.getLogger(__name__).error("the demo stops: %s", error)  # noqa: TRY400
            return
        if at >= WINDOW:
            stopping.wait(DEMO_PAUSE)
