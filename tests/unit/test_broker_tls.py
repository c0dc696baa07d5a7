"""`rediss://`: a certificate that is not trusted is refused, by the boot check and by what workers connect with."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.settings import Settings
from tasks import broker


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with a certificate that it made itself."""
    if shutil.which("openssl") is None:
        pytest.skip("NO TEST OF CERTIFICATES: openssl is missing")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("key", "cert")}
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-keyout", files["key"], "-out", files["cert"]]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["cert"], files["key"])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:  # closed
                    return
                try:
                    with context.wrap_socket(one, server_side=True) as secure:
                        while secure.recv(4096):
                            secure.sendall(b"+OK\r\n")
                except OSError:  # it was refused
                    continue

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def url(port: int, query: str = "") -> str:
    """As worker and doctor have it, from the settings."""
    return Settings(_env_file=None, celery_broker_url=f"rediss://127.0.0.1:{port}/0{query}").celery_broker_url


@pytest.mark.parametrize("query", ["", "?ssl_cert_reqs=required", "?ssl_cert_reqs=CERT_REQUIRED"])
def test_an_untrusted_certificate_is_refused(port: int, query: str) -> None:
    """Guard: `_verified` of the settings. Without it workers took any certificate (the first case, celery PR#8113), and
    the boot check knew one of the spellings alone."""
    with pytest.raises(TemporarilyUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        broker.ping(url(port, query))
    with (
        Connection(url(port, query)) as connection,
        pytest.raises(OperationalError, match=r"(?i)certificate"),
    ):
        connection.ensure_connection(max_retries=1, interval_start=0)


@pytest.mark.parametrize("query", ["?ssl_cert_reqs=none", "?ssl_cert_reqs=CERT_NONE"])
def test_a_certificate_is_taken_unseen_where_the_address_says_so(port: int, query: str) -> None:
    """What is heard behind it is no Redis."""
    with Connection(url(port, query)) as connection, pytest.raises(OperationalError, match="PING"):
        connection.ensure_connection(max_retries=1, interval_start=0)
