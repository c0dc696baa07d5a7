"""Who may act: a person who has shown the token, in a browser that holds a session for it.

Sessions live in this process alone: a restart ends them, and nothing that a browser keeps can be forged or guessed.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

# A working day. A person who acts later signs in again.
LASTS_S = 8 * 3_600.0
# People of one deployment, each with a browser or two; beyond, the oldest session ends.
MOST_SESSIONS = 100
# A token has 16 characters at least, so what is slowed down is noise more than danger: a person mistypes it twice.
WRONG_ALLOWED = 5
WRONG_WITHIN_S = 60.0
MOST_CLIENTS = 1_000
# What was done, told on the next page; more than one only when several pages act at once.
MOST_NOTES = 5


@dataclass(slots=True)
class Session:
    """A browser that has shown the token. `form_token`: what each of its forms carries; `notes`: what is to be told."""

    form_token: str
    ends_at: float
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))

    def made(self, form_token: str) -> bool:
        """True if the form that carries this was made for this session."""
        return _same(form_token, self.form_token)

    def told(self) -> list[str]:
        """What is to be told, once."""
        notes = list(self.notes)
        self.notes.clear()
        return notes


class Sessions:
    """The sessions of one process. `token` None: there can be none. For the event loop alone."""

    def __init__(self, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._clock = clock
        self._key = secrets.token_bytes(32)
        # By the hash of what the browser shows: how long it takes to find one tells nothing of it.
        self._there: OrderedDict[bytes, Session] = OrderedDict()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    @property
    def possible(self) -> bool:
        """True if there is a token to sign in with."""
        return self._token is not None

    def wait_s(self, client: str) -> float:
        """How long this client may not try again, after too many wrong tokens; 0 = it may."""
        tries = self._wrong.get(client)
        if tries is None or len(tries) < WRONG_ALLOWED:
            return 0.0
        return max(0.0, tries[0] + WRONG_WITHIN_S - self._clock())

    def sign_in(self, token: str, client: str) -> str | None:
        """What the browser is to show from now on; None for a wrong token."""
        if self._token is None or not _same(token, self._token):
            tries = self._wrong.setdefault(client, deque(maxlen=WRONG_ALLOWED))
            tries.append(self._clock())
            self._wrong.move_to_end(client)
            while len(self._wrong) > MOST_CLIENTS:
                self._wrong.popitem(last=False)
            return None
        self._wrong.pop(client, None)
        shown = secrets.token_urlsafe(32)
        self._there[_hash(shown)] = Session(secrets.token_urlsafe(32), self._clock() + LASTS_S)
        while len(self._there) > MOST_SESSIONS:
            self._there.popitem(last=False)
        return shown

    def of(self, shown: str | None) -> Session | None:
        """The session of what a browser shows, if it lasts."""
        session = self._there.get(_hash(shown)) if shown else None
        if session is None or self._clock() < session.ends_at:
            return session
        self.sign_out(shown)
        return None

    def sign_out(self, shown: str | None) -> None:
        """Ends the session."""
        if shown:
            self._there.pop(_hash(shown), None)

    def form_token_of(self, visitor: str) -> str:
        """What the form to sign in carries, for a browser that has no session: it belongs to a cookie of its own."""
        return hmac.new(self._key, visitor.encode(), hashlib.sha256).hexdigest()

    def made_for(self, form_token: str, visitor: str | None) -> bool:
        """True if the form to sign in was made for this browser."""
        return bool(visitor) and _same(form_token, self.form_token_of(visitor or ""))


def _same(shown: str, expected: str) -> bool:
    """In constant time, whatever was shown."""
    return hmac.compare_digest(shown.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


def _hash(shown: str) -> bytes:
    return hashlib.sha256(shown.encode("utf-8", "replace")).digest()
