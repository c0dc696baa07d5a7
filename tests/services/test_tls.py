"""TLS with an authority of one's own and client certificates, with a Redis and a Neo4j server that ask for both."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kombu.connection import Connection
from kombu.exceptions import OperationalError
from neo4j.exceptions import ServiceUnavailable

from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.local_services import Neo4jServer, ServicesConfig, free_ports
from neo4j_queue.local_services.config import silent
from neo4j_queue.local_services.neo4j_files import neo4j_home
from neo4j_queue.settings import Settings
from tasks import broker
from tests import certificates
from tests.certificates import Certificates
from tests.conftest import JAVA_OPTIONS
from tests.waiting import wait_until

PASSWORD = "a-password"
# Set by OpenSSL and Python to the authorities that are trusted, in place of the system's.
AUTHORITIES = "SSL_CERT_FILE"


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificates:
    monkeypatch.delenv(AUTHORITIES, raising=False)
    return certificates.make(tmp_path)


@pytest.fixture
def redis_port(certificate: Certificates, tmp_path: Path) -> Iterator[int]:
    """A Redis that speaks TLS alone, and with clients of its authority alone."""
    (port,) = free_ports(1)
    configuration = f"""
        port 0
        bind 127.0.0.1
        tls-port {port}
        tls-cert-file {certificate.server}
        tls-key-file {certificate.server_key}
        tls-ca-cert-file {certificate.authority}
        tls-auth-clients yes
        requirepass {PASSWORD}
        save ""
    """
    (tmp_path / "redis.conf").write_text(configuration)
    with subprocess.Popen(
        ["redis-server", str(tmp_path / "redis.conf")], stdout=subprocess.DEVNULL, cwd=tmp_path
    ) as server:
        yield port
        server.terminate()


def url(port: int, query: str = "", password: str = PASSWORD) -> str:
    """As worker and doctor have it, from the settings."""
    address = f"rediss://:{password}@127.0.0.1:{port}/0{query}"
    return Settings(_env_file=None, celery_broker_url=address).celery_broker_url


def test_redis_by_an_authority_of_ones_own(
    redis_port: int, certificate: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = f"?ssl_certfile={certificate.client}&ssl_keyfile={certificate.client}"

    def refused(address: str) -> str:
        with pytest.raises(TemporarilyUnavailable) as caught:
            broker.ping(address)
        with Connection(address) as connection, pytest.raises(OperationalError):
            connection.ensure_connection(max_retries=1, interval_start=0)
        assert PASSWORD not in str(caught.value)
        return str(caught.value)

    wait_until(
        lambda: "CERTIFICATE_VERIFY_FAILED" in refused(url(redis_port)), within_s=10, what="Redis is up"
    )
    assert "CERTIFICATE_VERIFY_FAILED" in refused(url(redis_port, shown))
    monkeypatch.setenv(AUTHORITIES, str(certificate.authority))
    refused(url(redis_port))  # without a certificate of ours
    for query in (shown, f"{shown}&ssl_ca_certs={certificate.authority}"):
        broker.ping(url(redis_port, query))
        with Connection(url(redis_port, query)) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
    with pytest.raises(SettingsError, match="CELERY_BROKER_URL"):
        broker.ping(url(redis_port, shown, password="another-password"))


def test_neo4j_by_an_authority_of_ones_own(
    certificate: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy"
    for name, source in {
        "private.key": certificate.server_key,
        "public.crt": certificate.server,
        "trusted/authority.crt": certificate.authority,
    }.items():
        (policy / name).parent.mkdir(parents=True, exist_ok=True)
        (policy / name).write_bytes(source.read_bytes())
    (policy / "revoked").mkdir()
    asks = {
        # Plain Bolt too, by which the start is watched.
        "server.bolt.tls_level": "OPTIONAL",
        "dbms.ssl.policy.bolt.enabled": "true",
        "dbms.ssl.policy.bolt.base_directory": str(policy),
        "dbms.ssl.policy.bolt.client_auth": "REQUIRE",
    }
    config = ServicesConfig(
        directory=tmp_path / "services", throwaway=True, java_options=JAVA_OPTIONS, neo4j_settings=asks
    )
    (port,) = free_ports(1)
    server = Neo4jServer(
        "jobs", port, "embedding-jobs", config, neo4j_home(), silent, password=lambda: PASSWORD
    )
    plain = server.address

    def answer(scheme: str, shown: Path | None) -> int:
        address = replace(
            plain, uri=f"{scheme}://127.0.0.1:{port}", certificate=None if shown is None else str(shown)
        )
        with Database(address, retry_time_s=0) as database:
            return int(database.read("RETURN 1 AS one")[0]["one"])

    server.start()
    try:
        with pytest.raises(ServiceUnavailable, match="SSLCertVerificationError"):
            answer("bolt+s", certificate.client)
        monkeypatch.setenv(AUTHORITIES, str(certificate.authority))
        with pytest.raises(ServiceUnavailable):
            answer("bolt+s", None)
        assert answer("bolt+s", certificate.client) == 1
        assert answer("neo4j+s", certificate.client) == 1
    finally:
        server.stop()
