"""When a number of jobs will be done: by how fast batches ended lately, and by what the limits let through.

Pure functions of what `outlook` has read. The later of the two counts. Where no batch ended lately the speed is not
known, and so is the end: a limit alone says how soon it may be, not how soon it will.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Beat asks for leases once a second: batches less than this apart are work without a rest. A longer gap is a pause, a
# limit, or an empty queue. Where a window is short, the rests of its limit are shorter: then a share of it.
GAP_MS = 2_000
GAP_SHARE = 4
# A moment beyond ten years is none that anyone waits for.
FAR_MS = 10 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class Window:
    """A limit: so much of `what` ("requests", "tokens") in any `window_ms`.

    `leaving`: what is used now, by when it leaves the window (epoch ms), the soonest first. `kept`: what the jobs at
    hand leave to others. `per_ms`: the interval that the limit is named for, `of_provider`: by the provider.
    """

    what: str
    limit: int
    window_ms: int
    leaving: tuple[tuple[int, int], ...] = ()
    kept: int = 0
    per_ms: int = 0
    of_provider: bool = False

    def __str__(self) -> str:
        noun = "model tokens" if self.what == "tokens" else self.what
        whose = " (as the provider says)" if self.of_provider else ""
        return f"{self.used:,} used of {self.limit:,} {noun} per {self.per_ms / 1000:g} s{whose}"

    @property
    def allowed(self) -> int:
        """What the jobs at hand may use."""
        return max(0, self.limit - self.kept)

    @property
    def used(self) -> int:
        """How much is used now."""
        return sum(amount for _, amount in self.leaving)

    @property
    def used_up(self) -> bool:
        """True if nothing is left for the jobs at hand."""
        return self.used >= self.allowed

    def moment(self, needed: int, start: int) -> int | None:
        """When the last of `needed` more may be asked for, if asking begins at `start`; None = never.

        What leaves the window may be used again at once, and is used for a whole window then.
        """
        if needed <= 0:
            return start
        if self.allowed <= 0:
            return None
        leaving = [(at, amount) for at, amount in self.leaving if at > start]
        free = self.allowed - sum(amount for _, amount in leaving)
        rounds, position = divmod(needed - 1, self.allowed)
        at = start
        for leaves_at, amount in leaving:
            if position < free:
                break
            at, free = leaves_at, free + amount
        return at + rounds * self.window_ms


@dataclass(frozen=True, slots=True)
class Speed:
    """So many jobs ended in `busy_ms` of work; `batch_ms`: how long one batch takes."""

    jobs: int
    busy_ms: int
    batch_ms: int

    @classmethod
    def of(cls, batches: Sequence[Sequence[int]], windows: Sequence[Window] = ()) -> "Speed | None":
        """The speed of batches (began, ended, jobs) under some limits; None if no job ended in them."""
        jobs = sum(batch[2] for batch in batches)
        if not jobs:
            return None
        gap_ms = min([GAP_MS, *(window.window_ms // GAP_SHARE for window in windows)])
        busy = 0
        until: int | None = None
        for began, ended, _ in sorted(map(tuple, batches)):
            if until is None or began - until > gap_ms:
                busy += max(0, ended - began)
                until = ended
            elif ended > until:
                busy += ended - until
                until = ended
        durations = sorted(max(0, ended - began) for began, ended, _ in batches)
        return cls(jobs, max(1, busy), durations[len(durations) // 2])

    def ms_for(self, jobs: int) -> int:
        """How long so many jobs take."""
        return round(jobs * self.busy_ms / self.jobs)


@dataclass(frozen=True, slots=True)
class Work:
    """What is still to be done: jobs, and what those of them that wait will ask of the provider."""

    jobs: int
    requests: int
    tokens: int


def done_at(work: Work, windows: Sequence[Window], speed: Speed | None, start: int) -> int | None:
    """When the work will be done, if it may begin at `start` (epoch ms); None = not known."""
    if speed is None:
        return None
    last = start
    for window in windows:
        moment = window.moment(work.requests if window.what == "requests" else work.tokens, start)
        if moment is None:
            return None
        last = max(last, moment)
    end = max(last + speed.batch_ms, start + speed.ms_for(work.jobs))
    return end if end - start < FAR_MS else None
