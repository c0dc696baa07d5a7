"""An authority of its own, and certificates by it, as an organisation has them; made with openssl for one test."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVER_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM. `client` holds certificate and key; the others have a `.key` beside them."""

    authority: Path
    server: Path
    client: Path

    @property
    def server_key(self) -> Path:
        """The key of the server's certificate."""
        return self.server.with_suffix(".key")


def make(directory: Path) -> Certificates:
    """Makes all three; skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("NO TEST OF CERTIFICATES: openssl is missing")
    authority = directory / "authority.crt"
    # Elliptic curves: a key is made at once.
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl("req", "-x509", *key, "-subj", "/CN=an authority", *_files(authority))
    signed = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")))
    server, one, client = (directory / name for name in ("server.crt", "one.crt", "client.pem"))
    _openssl(
        "req", "-x509", *key, *signed, "-subj", "/CN=localhost", "-addext", SERVER_NAMES, *_files(server)
    )
    _openssl("req", "-x509", *key, *signed, "-subj", "/CN=a worker", *_files(one))
    client.write_text(one.read_text() + one.with_suffix(".key").read_text())
    return Certificates(authority, server, client)


def _files(certificate: Path) -> tuple[str, ...]:
    return ("-out", str(certificate), "-keyout", str(certificate.with_suffix(".key")))


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
