"""Blocking work on threads of its own, each call within a bounded time.

The drivers block, and a database that is frozen keeps its socket open and silent. A call that is not answered in time
gets an error; its thread goes on until the driver gives up, and keeps neither other calls nor the end of the program
waiting (anyio's own threads would: they are joined at exit).
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio

from neo4j_queue.errors import TemporarilyUnavailable

T = TypeVar("T")
P = ParamSpec("P")

# Whose answer a call waits for, as its caller reads it.
GRAPH, JOBS = "the graph database", "the jobs database"

# As the command line: a database that answers at all has answered long before, and clients give up after a minute.
ANSWER_WITHIN_S = 20.0
# Calls of one tool at the same time. Five tools ask the jobs database, and the driver has a hundred connections.
AT_ONCE = 16


class Call:
    """One call of a tool, as its work sees it. `asks`: whose answer it waits for."""

    def __init__(self) -> None:
        self.asks = "a database"
        self._ended = threading.Event()

    def end(self) -> None:
        """The caller was answered: nothing further is to be begun."""
        self._ended.set()

    def of(self, asks: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns, which asks `asks`. Raises `TemporarilyUnavailable`, without the work, when the call has
        ended."""
        if self._ended.is_set():
            raise TemporarilyUnavailable("the call has ended")
        self.asks = asks
        return work(*args, **kwargs)


class Calls:
    """Runs the calls of tools, at most `AT_ONCE` of each tool at a time."""

    def __init__(self, within_s: float = ANSWER_WITHIN_S) -> None:
        self.within_s = within_s
        self._slots: dict[str, anyio.Semaphore] = {}
        self._late: Counter[str] = Counter()
        self._waited_for: set[anyio.CancelScope] = set()
        self._ending = False

    async def run(self, tool: str, work: Callable[[Call], T]) -> T:
        """What `work` returns or raises. Raises `TemporarilyUnavailable` when there is no answer in time."""
        if self._late[tool] >= AT_ONCE:
            raise TemporarilyUnavailable(
                f"{AT_ONCE} earlier calls of {tool} still wait for a database that gives no answer"
            )
        slot = self._slots.setdefault(tool, anyio.Semaphore(AT_ONCE))
        call = Call()
        with anyio.move_on_after(self.within_s) as wait:
            self._waited_for.add(wait)
            try:
                await slot.acquire()
                return await self._on_a_thread(tool, partial(work, call), call, slot)
            finally:
                self._waited_for.discard(wait)
        if self._ending:
            raise TemporarilyUnavailable(f"the server ends, and {call.asks} gave no answer until then")
        raise TemporarilyUnavailable(f"{call.asks} gave no answer within {self.within_s:.0f} s")

    def end(self) -> None:
        """Answers every call that still waits: the server ends."""
        self._ending = True
        for wait in list(self._waited_for):
            wait.cancel()

    async def idle(self) -> None:
        """Returns when no call waits for its answer."""
        while self._waited_for:
            # Only the end of the program waits here.
            await anyio.sleep(0.02)

    async def _on_a_thread(self, tool: str, work: Callable[[], T], call: Call, slot: anyio.Semaphore) -> T:
        """Gives the slot back when the thread has ended, however late that is."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        late = False

        def ended() -> None:
            slot.release()
            if late:
                self._late[tool] -= 1

        def deliver(act: Callable[[], None]) -> None:
            try:
                loop.call_soon_threadsafe(act)
            except RuntimeError:  # the loop is closed: the program ends
                return

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                deliver(lambda error=error: _settle(answer, error=error))  # type: ignore[misc]
            else:
                deliver(lambda: _settle(answer, result=result))
            deliver(ended)

        threading.Thread(target=run, name=tool, daemon=True).start()
        try:
            return await answer
        finally:
            if not answer.done() or answer.cancelled():
                late = True
                self._late[tool] += 1
                call.end()


def _settle(
    answer: "asyncio.Future[T]", *, result: T | None = None, error: BaseException | None = None
) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)  # type: ignore[arg-type]
