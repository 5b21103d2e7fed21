"""A server on this machine that speaks as much of S3 as pyarrow's client asks of it."""

import atexit
import itertools
import os
import re
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEYS = {
    "AWS_ACCESS_KEY_ID": "me",
    "AWS_SECRET_ACCESS_KEY": "mine",
    "AWS_EC2_METADATA_DISABLED": "1",
}


class Objects(ThreadingHTTPServer):
    """Objects by their names; `broken` answers every request with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count()
        self.broken = False

    @property
    def uri(self) -> str:
        """Where segments may be put."""
        where = f"endpoint_override=127.0.0.1%3A{self.server_port}"
        return f"s3://bucket/records?scheme=http&region=eu-west-1&{where}"


def joined(stream: BufferedIOBase) -> bytes:
    """What comes in pieces, each headed by its length; what follows the last is left out."""
    found = b""
    while size := int(stream.readline().split(b";")[0], 16):
        found += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return found


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Objects
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """Whatever is asked, in a method of its own."""
        self.raw_requestline = self.rfile.readline(2**16)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        url = urlsplit(self.path)
        self.key = unquote(url.path).removeprefix("/")
        self.query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
        body = self._body()
        if self.server.broken:
            self._answer(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
        else:
            getattr(self, f"do_{self.command}")(body)

    def _body(self) -> bytes:
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        data = (
            joined(self.rfile)
            if chunked
            else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        )
        return joined(BytesIO(data)) if "x-amz-decoded-content-length" in self.headers else data

    def _answer(self, code: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.pop("length", str(len(data))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _xml(self, name: str, inner: str) -> None:
        self._answer(200, f'<?xml version="1.0"?><{name}>{inner}</{name}>'.encode())

    def do_PUT(self, body: bytes) -> None:
        if "uploadId" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
        else:
            self.server.objects[self.key] = body
        self._answer(200, ETag='"0"')

    def do_POST(self, body: bytes) -> None:
        del body
        if "uploads" in self.query:
            name = f"{next(self.server.numbers)}"
            self.server.uploads[name] = {}
            self._xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
        else:
            parts = self.server.uploads.pop(self.query["uploadId"])
            self.server.objects[self.key] = b"".join(parts[number] for number in sorted(parts))
            self._xml("CompleteMultipartUploadResult", "<ETag>0</ETag>")

    def do_DELETE(self, body: bytes) -> None:
        del body
        self.server.objects.pop(self.key, None)
        self._answer(204)

    def do_HEAD(self, body: bytes) -> None:
        self.do_GET(body)

    def do_GET(self, body: bytes) -> None:
        del body
        if "list-type" in self.query:
            self._list(f"{self.key.partition('/')[0]}/", self.query.get("prefix", ""))
        elif self.key == "bucket":
            self._answer(200)
        elif self.key not in self.server.objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            data, code = self.server.objects[self.key], 200
            if wanted := re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
                data, code = data[int(wanted[1]) : int(wanted[2]) + 1], 206
            self._answer(code, data, ETag='"0"', Last_Modified="Fri, 02 Jan 2026 03:04:05 GMT")

    def _list(self, bucket: str, prefix: str) -> None:
        found = [
            f"<Contents><Key>{escape(key.removeprefix(bucket))}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
            for key, data in sorted(self.server.objects.items())
            if key.startswith(bucket + prefix)
        ]
        count = f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._xml("ListBucketResult", count + "".join(found))

    def log_message(self, *_: Any) -> None:
        """Nothing is said."""


@cache
def objects() -> Objects:
    """The one that all tests of a process share; our credentials are in the environment."""
    server = Objects()
    atexit.register(server.server_close)
    os.environ.update(KEYS)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
