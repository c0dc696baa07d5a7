"""The proxy does to a connection what it says, seen from a client of an echo server."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.faultkit.proxy import Direction, TcpProxy
from tests.waiting import wait_until


@pytest.fixture
def heard() -> list[bytes]:
    """What the echo server received."""
    return []


@pytest.fixture
def proxy(heard: list[bytes]) -> Iterator[TcpProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo_all, args=(listener, heard), daemon=True).start()
        with TcpProxy(("127.0.0.1", listener.getsockname()[1])) as proxy:
            yield proxy


def _echo_all(listener: socket.socket, heard: list[bytes]) -> None:
    def echo(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while piece := connection.recv(1000):
                heard.append(piece)
                connection.sendall(piece)

    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=echo, args=(connection,), daemon=True).start()


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as client:
        client.settimeout(5)
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        yield client


def silent(client: socket.socket) -> bool:
    """Nothing comes for a while, and the connection is open."""
    client.settimeout(0.3)
    try:
        return bool(client.recv(100)) and False
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)


def test_freezing_up_keeps_the_request_here(
    client: socket.socket, proxy: TcpProxy, heard: list[bytes]
) -> None:
    proxy.freeze(Direction.UP)
    client.sendall(b"frozen")
    assert silent(client)
    assert heard == [b"hello"]
    proxy.thaw()
    assert client.recv(100) == b"frozen"


def test_freezing_down_keeps_the_answer_here(
    client: socket.socket, proxy: TcpProxy, heard: list[bytes]
) -> None:
    proxy.freeze(Direction.DOWN)
    client.sendall(b"frozen")
    wait_until(lambda: heard == [b"hello", b"frozen"], within_s=5, what="the server has the request")
    assert silent(client)
    proxy.thaw()
    assert client.recv(100) == b"frozen"


def test_a_delay_holds_each_piece(client: socket.socket, proxy: TcpProxy) -> None:
    proxy.delay(Direction.DOWN, 0.6)
    client.sendall(b"late")
    assert silent(client)
    assert client.recv(100) == b"late"


def test_a_cut_resets_what_is_open_and_takes_what_is_new(client: socket.socket, proxy: TcpProxy) -> None:
    proxy.cut()
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(100) == b""
    assert proxy.connections == 0
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as again:
        again.settimeout(5)
        again.sendall(b"again")
        assert again.recv(100) == b"again"


def test_an_answer_is_lost_though_the_request_arrived(
    client: socket.socket, proxy: TcpProxy, heard: list[bytes]
) -> None:
    proxy.lose_answer_to(b"COMMIT")
    client.sendall(b"other")
    assert client.recv(100) == b"other"
    client.sendall(b"a COMMIT it is")
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(100) == b""
    assert heard[-1] == b"a COMMIT it is"
    assert proxy.lost == 1


def test_a_target_that_is_away_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        TcpProxy(("127.0.0.1", port)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), 5) as client,
        contextlib.suppress(ConnectionResetError),
    ):
        assert client.recv(100) == b""


def test_a_stranded_connection_is_silent_for_good_and_new_ones_work(
    client: socket.socket, proxy: TcpProxy
) -> None:
    proxy.strand()
    client.sendall(b"into the void")
    assert silent(client)
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as again:
        again.settimeout(5)
        again.sendall(b"new")
        assert again.recv(100) == b"new"
    assert silent(client)
