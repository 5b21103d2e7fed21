"""Reads a NATS stream over one connection; all asynchronous code is here."""

import asyncio
import json
import logging
import os
import ssl
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamInfo

from tidegate.sources.broker import BYTES, LostError, Pulled, batch_size, id_of
from tidegate.sources.nats_stream import NatsStream, StreamOffset
from tidegate.sources.source import SourceError

TIMEOUT = 10.0
"""Seconds to wait for one response of the server."""

SILENCE = TIMEOUT + 1
"""Seconds without a message after which to stop waiting: the pull request has expired by then."""

FORGET = 300.0
"""Seconds without a request after which the server deletes a consumer that was left open."""

# Hide a warning that asyncio logs at the end of every TLS connection.
logging.getLogger("asyncio").addFilter(lambda line: "eof_received" not in str(line.msg))


Pull = Callable[[], "Future[Pulled | None]"]
"""Starts the next pull of messages."""


@contextmanager
def reading(
    source: NatsStream, place: StreamOffset
) -> Iterator[Callable[[], "Future[Pulled | None]"]]:
    """A function that starts the next pull of messages after a place.

    Pulls run in an event loop on a separate thread, which answers the server during training.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="nats", daemon=True)
    thread.start()

    def start(work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, loop)

    reader = Reader(source, place)
    try:
        start(reader.open()).result()
        yield lambda: start(reader.pull())
    finally:
        if not sys.is_finalizing():  # otherwise the thread has stopped and would never answer
            start(reader.close()).result()
            start(_end_tasks()).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Guarded(Client):
    """A client that sends nothing, above all no password, without TLS if TLS is required.

    The library itself continues in plain text if the server, or an attacker, does not offer TLS.
    """

    def __init__(self, *, encrypted: bool) -> None:
        super().__init__()
        self._encrypted = encrypted

    def _connect_command(self) -> bytes:
        """The first message of the client, which holds its credentials."""
        if self._encrypted and not self._server_info.get("tls_required"):
            raise SourceError(
                "the server of [source] does not require TLS, but source.url or source.ca does: "
                "turn TLS on at the server"
            )
        return bytes(super()._connect_command())


class Reader:
    """Reads the messages of a stream after a place, through a consumer of its own.

    It pulls, so the server sends no more than requested. Messages are not acknowledged: the server
    numbers them, and a missing number closes the connection.
    """

    def __init__(self, source: NatsStream, place: StreamOffset) -> None:
        self._source, self._place = source, place
        self._client = Guarded(encrypted=source.encrypted)
        self._inbox = self._client.new_inbox()
        self._consumer: str | None = None
        self._received: list[Msg] = []
        self._wanted, self._room, self._full, self._done = 0, 0, False, asyncio.Event()
        self._sent = 0  # messages sent by the consumer so far
        self._left = 0  # messages left of those that were there when it was opened
        self._gap: LostError | None = None  # a gap after the last pull

    async def open(self) -> None:
        """Connect, and check that the stream continues from the place."""
        with _explained(self._source):
            await self._connect()
            self._jetstream = self._client.jetstream(timeout=TIMEOUT)
            info = await self._jetstream.stream_info(self._source.stream)
            again = self._check(info)
            if again or info.state.last_seq > self._place.sequence:
                await self._consume(self._place.sequence + (not again))
                if again:
                    await self._read_again()

    async def _consume(self, start: int) -> None:
        """Create a consumer of the messages from a sequence number on."""
        name, stream = self._client.new_inbox().rpartition(".")[2], self._source.stream
        consumer = ConsumerConfig(
            name=name,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=start,
            ack_policy=AckPolicy.NONE,
            filter_subject=self._source.subject,
            inactive_threshold=FORGET,
            mem_storage=True,
        )
        self._left = (await self._jetstream.add_consumer(stream, consumer)).num_pending or 0
        self._consumer = name
        # No limits in the client: no more can wait here than was requested.
        await self._client.subscribe(
            self._inbox, cb=self._receive, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def _connect(self) -> None:
        source, variables = self._source, os.environ
        for file in filter(None, (source.ca, source.credentials)):
            if not Path(file).is_file():
                raise SourceError(f"{file}, named in [source], is not a file: check the path")
        try:
            context = ssl.create_default_context(cafile=source.ca) if source.ca else None
        except ssl.SSLError:
            wrong = f"{source.ca}, named by source.ca, holds no certificate"
            raise SourceError(f"{wrong}: name a PEM file") from None
        await self._client.connect(
            list(source.url),
            name="tidegate",
            allow_reconnect=False,  # a new connection must start at a known place
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(TIMEOUT),
            closed_cb=self._wake,
            error_cb=_ignore,
            tls=context,
            user_credentials=source.credentials,
            user=variables.get("TIDEGATE_NATS_USER"),
            password=variables.get("TIDEGATE_NATS_PASSWORD"),
            token=variables.get("TIDEGATE_NATS_TOKEN"),
        )

    def _check(self, info: StreamInfo) -> bool:
        """Refuse a stream that has lost its next messages; whether the last one can be reread."""
        config, first, last = info.config, info.state.first_seq, info.state.last_seq
        if config.retention != RetentionPolicy.LIMITS or (config.max_msgs_per_subject or 0) > 0:
            wrong = f"stream {self._source.stream} may delete messages before they are taken"
            raise SourceError(f"{wrong}: set retention=limits and no max_msgs_per_subject")
        place = self._place
        if place.sequence == 0:  # messages deleted before the first look are not missed
            self._place = StreamOffset(sequence=max(first, 1) - 1)
            return False
        if last < place.sequence:
            raise self._lost(
                f"ends at message {last}, but {place.sequence} was taken: it was recreated, or its "
                "server has lost its end",
                last,
            )
        if first > place.sequence + 1:
            raise self._gone(place.sequence, first)
        return first <= place.sequence and place.time != "-"

    async def _read_again(self) -> None:
        """Check the last message that was taken: if it differs, so may all after it."""
        messages = await self._some(1) if self._left else []
        if [_place(message) for message in messages] != [self._place]:
            raise self._lost(
                f"has another message {self._place.sequence} than the one that was taken, or none: "
                "it was recreated, or that message was deleted",
                self._place.sequence,
            )

    async def pull(self) -> Pulled | None:
        """The next batch of the messages that were there when it was opened; None at the end.

        Their size affects only the number of requests. A gap after some of them is reported by the
        next pull.
        """
        messages: list[Msg] = []
        most = batch_size(self._source.columns)
        while self._left and not self._gap and len(messages) < most:
            try:
                messages += await self._next(most - len(messages))
            except LostError as error:
                self._gap = error
        if self._gap and not messages:
            raise self._gap
        if not messages:
            return None
        name, bodies = self._source.id_header, [message.data for message in messages]
        ids = [id_of((each.headers or {}).get(name)) for each in messages] if name else None
        return Pulled(bodies, self._place.text(), ids)

    async def _next(self, most: int) -> list[Msg]:
        """Up to `most` messages: at most `BYTES`, or one longer message."""
        with _explained(self._source):
            messages = await self._some(min(self._left, most), BYTES) or await self._some(1)
            if not self._source.subject:
                messages = self._before_gap(messages)
            else:  # the next messages may be lost by now, of any subject
                info = await self._jetstream.stream_info(self._source.stream)
                if info.state.first_seq > self._place.sequence + 1:
                    raise self._gone(self._place.sequence, info.state.first_seq)
        self._place = replace(_place(messages[-1]), whose=self._source.whose)
        return messages

    def _before_gap(self, messages: list[Msg]) -> list[Msg]:
        """The messages before the first gap, which the next pull reports."""
        taken = self._place.sequence
        if _sequence(messages[-1]) == taken + len(messages):  # sequence numbers only increase
            return messages
        gap = next(i for i, each in enumerate(messages) if _sequence(each) > taken + i + 1)
        self._gap = self._gone(taken + gap, _sequence(messages[gap]))
        if gap == 0:
            raise self._gap
        return messages[:gap]

    async def _some(self, n: int, room: int = 0) -> list[Msg]:
        """The next messages, up to `n`, and up to `room` bytes unless it is 0.

        None if the first message is larger than `room`.
        """
        self._received, self._wanted, self._room, self._full = [], n, room, False
        self._done.clear()
        request = {"batch": n, "max_bytes": room, "expires": int(TIMEOUT * 1e9)}
        where = f"$JS.API.CONSUMER.MSG.NEXT.{self._source.stream}.{self._consumer}"
        await self._client.publish(where, json.dumps(request).encode(), self._inbox)
        came = -1
        while not self._done.is_set() and len(self._received) > came:  # while any arrive
            came = len(self._received)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), SILENCE)
        messages, self._received = self._received, []
        if not messages and not self._full:
            raise ConnectionError("no message arrived")
        self._sent, self._left = self._sent + len(messages), self._left - len(messages)
        if messages and messages[-1].metadata.sequence.consumer != self._sent:
            raise ConnectionError("messages were lost in transit")
        return messages

    async def _receive(self, message: Msg) -> None:
        if message.reply:
            self._received.append(message)
            self._room -= _size(message)
        else:  # a status message: no more will come
            self._full = "MaxBytes" in (message.headers or {}).get("Description", "")
        # If the room is used up exactly, there is no status message.
        if not message.reply or self._room == 0 or len(self._received) == self._wanted:
            self._done.set()

    async def _wake(self) -> None:
        self._done.set()

    def _gone(self, taken: int, first: int) -> LostError:
        whose = " (maybe of other subjects)" if self._source.subject else ""
        which = f"messages {taken + 1} to {first - 1}{whose}"
        return self._lost(f"has lost {which} before they were taken", first - 1)

    def _lost(self, what: str, sequence: int) -> LostError:
        where = f"stream {self._source.stream} of {self._source}"
        return LostError(f"{where} {what}", StreamOffset(sequence=sequence).text())

    async def close(self) -> None:
        """Delete the consumer and close the connection, or leave that to the server."""
        with suppress(Exception):
            if self._consumer and self._client.is_connected:
                await self._jetstream.delete_consumer(self._source.stream, self._consumer)
        with suppress(Exception):  # the client hangs after a failed handshake
            await asyncio.wait_for(self._client.close(), 1)


def _size(message: Msg) -> int:
    """The size of a message in bytes, as the server counts it."""
    # Headers are parsed already; one with unusual spacing costs at most a wait.
    lines = (message.headers or {}).items()
    header = "".join(["NATS/1.0\r\n", *(f"{name}: {value}\r\n" for name, value in lines), "\r\n"])
    texts = [message.subject, message.reply, header if lines else ""]
    return len("".join(texts).encode()) + len(message.data)


def _sequence(message: Msg) -> int:
    return message.metadata.sequence.stream


def _place(message: Msg) -> StreamOffset:
    return StreamOffset(sequence=_sequence(message), time=message.metadata.timestamp.isoformat())


async def _ignore(_: Exception) -> None:
    """Ignore an error: the pull that waits for the connection reports it."""


@contextmanager
def _explained(source: NatsStream) -> Iterator[None]:
    """Turn permanent errors into SourceError, and temporary ones into ConnectionError."""
    try:
        yield
    except nats.js.errors.NotFoundError as error:
        wrong = f"there is no stream {source.stream} on {source}"
        raise SourceError(f"{wrong}: check source.stream and source.url") from error
    except nats.js.errors.BadRequestError as error:
        wrong = f"{source} refuses stream {source.stream}: {error.description}"
        raise SourceError(f"{wrong}; check source.stream and source.subject") from error
    except ssl.SSLCertVerificationError as error:
        wrong = f"{source}: the certificate is not trusted: {error.verify_message}"
        raise SourceError(f"{wrong}; name its authority in source.ca") from error
    except (nats.errors.Error, OSError) as error:
        if "authorization" in str(error).lower():  # not all such errors have a class of their own
            wrong = f"{source} refuses the credentials, or requires some"
            raise SourceError(f"{wrong}: see docs/sources.md") from error
        reason = str(error).removeprefix("nats: ")
        raise ConnectionError(reason or "no response in time") from error
