"""A TCP proxy on loopback that can freeze, delay and cut what passes through it, each direction by itself.

with TcpProxy(("127.0.0.1", 7687)) as proxy:
    client = connect(proxy.port)
    proxy.freeze(Direction.UP)          # what the client sends stays here; the connection looks alive
    proxy.thaw()
    proxy.delay(Direction.DOWN, 0.2)    # seconds for each piece of an answer
    proxy.cut()                         # every connection is reset
        proxy.strand()                      # half-open: what is open now stays open and silent
    proxy.lose_answer_to(COMMIT)        # the next such request arrives; its answer does not
    proxy.reword(b"Neo4j/5.26", b"Neo4j/5.25")  # in what comes from the server from now on
"""

import contextlib
import enum
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Self

PIECE_BYTES = 65_536
# How often a frozen or closing pump looks around.
LOOK_EVERY_S = 0.02
CONNECT_TIMEOUT_S = 5.0
# Bolt's COMMIT as a whole message: chunk of two bytes, a structure without fields, end of message.
COMMIT = b"\x00\x02\xb0\x12\x00\x00"


class Direction(enum.Enum):
    """Seen from the client."""

    UP = "to the server"
    DOWN = "to the client"


@dataclass(eq=False)
class _Connection:
    client: socket.socket
    server: socket.socket
    loses_answer: threading.Event = field(default_factory=threading.Event)
    stranded: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        """Ends both sides with RST: nothing that is on its way arrives."""
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()


class TcpProxy:
    """Forwards a port of its own to `target` (host, port). All methods may be called while bytes pass."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._frozen = {Direction.UP: threading.Event(), Direction.DOWN: threading.Event()}
        self._delay_s = {Direction.UP: 0.0, Direction.DOWN: 0.0}
        self._lost_requests: list[bytes] = []
        self._words: list[tuple[bytes, bytes]] = []
        self._closed = False
        # How many answers were lost, so that a test can see that its fault took place.
        self.lost = 0
        # How many connections could not be made, because the target was away.
        self.refused = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._listener.close()
        self.cut()

    def on_the_way_to(self, url: str) -> str:
        """The address of the target, with user and password if it has some, but through this proxy."""
        return url.replace(f":{self._target[1]}", f":{self.port}")

    def freeze(self, *directions: Direction) -> None:
        """Forwards nothing in these directions (both, when none is named) until `thaw`; nothing is closed."""
        for direction in directions or tuple(Direction):
            self._frozen[direction].set()

    def thaw(self) -> None:
        """What was held back goes on."""
        for frozen in self._frozen.values():
            frozen.clear()

    def delay(self, direction: Direction, seconds: float) -> None:
        """Holds every piece back for so long."""
        self._delay_s[direction] = seconds

    def cut(self) -> None:
        """Resets every connection; new ones are taken."""
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.reset()

    def strand(self) -> None:
        """Leaves every connection half-open: nothing passes any more, and nobody is told. New ones work."""
        with self._lock:
            for connection in self._connections:
                connection.stranded.set()

    def lose_answer_to(self, request: bytes) -> None:
        """The next piece from a client that holds these bytes is forwarded; its connection is cut at the answer."""
        with self._lock:
            self._lost_requests.append(request)

    def reword(self, said: bytes, heard: bytes) -> None:
        """The client hears other words of the same length, where they come in one piece."""
        assert len(said) == len(heard)
        self._words.append((said, heard))

    @property
    def connections(self) -> int:
        """How many are open."""
        with self._lock:
            return len(self._connections)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                server = socket.create_connection(self._target, CONNECT_TIMEOUT_S)
            except OSError:  # the target is away: so are we
                self.refused += 1
                client.close()
                continue
            for side in (client, server):
                side.settimeout(None)
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client, server)
            with self._lock:
                self._connections.add(connection)
            for direction in Direction:
                threading.Thread(target=self._pump, args=(connection, direction), daemon=True).start()

    def _pump(self, connection: _Connection, direction: Direction) -> None:
        source, sink = (
            (connection.client, connection.server)
            if direction is Direction.UP
            else (connection.server, connection.client)
        )
        try:
            while piece := source.recv(PIECE_BYTES):
                self._hold(connection, direction)
                if direction is Direction.UP:
                    self._mark(connection, piece)
                elif connection.loses_answer.is_set():
                    self.lost += 1
                    break
                else:
                    for said, heard in self._words:
                        piece = piece.replace(said, heard)
                sink.sendall(piece)
        except OSError:
            pass  # reset or closed by one side: the other side learns of it below
        self._forget(connection)

    def _hold(self, connection: _Connection, direction: Direction) -> None:
        if self._delay_s[direction]:
            time.sleep(self._delay_s[direction])
        while not self._closed and (self._frozen[direction].is_set() or connection.stranded.is_set()):
            time.sleep(LOOK_EVERY_S)

    def _mark(self, connection: _Connection, piece: bytes) -> None:
        with self._lock:
            for request in self._lost_requests:
                if request in piece:
                    self._lost_requests.remove(request)
                    connection.loses_answer.set()
                    return

    def _forget(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        connection.reset()
