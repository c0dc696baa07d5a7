"""Pictures of the last hours, as lines of an SVG: numbers alone, no data becomes markup."""

from collections.abc import Sequence
from dataclasses import dataclass

# The picture's own units; it is stretched to the width that there is.
WIDTH, HEIGHT = 600, 120
# Without a sample for so long, the line is broken: no control worker ran.
GAP_MS = 4 * 60_000
# Points of a line: more than a screen shows would only make the page larger.
MOST_POINTS = 300


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture. `lines`: the points of each unbroken piece, and `dots` the pieces of one point; `most`: the value at
    the top, `last` the latest one."""

    name: str
    unit: str
    lines: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    most: float
    last: float | None
    hours: int

    @property
    def said(self) -> str:
        """What it shows, for who cannot see it."""
        if self.last is None:
            return f"{self.name} of the last {self.hours} hours: not known"
        return (
            f"{self.name} of the last {self.hours} hours: at most {self.most:,.0f} {self.unit}, "
            f"{self.last:,.0f} at the last sample"
        )


def chart(name: str, unit: str, points: Sequence[tuple[int, float]], now: int, hours: int) -> Chart:
    """The picture of values by their times (epoch ms), the oldest first."""
    since = now - hours * 3_600_000
    shown = _thinned([(at, value) for at, value in points if since <= at <= now])
    most = max((value for _, value in shown), default=0.0)
    top = most or 1.0

    def place(at: int, value: float) -> tuple[float, float]:
        x = (at - since) * WIDTH / (now - since)
        return round(x, 1), round(HEIGHT - value * (HEIGHT - 4) / top - 2, 1)

    pieces: list[list[tuple[float, float]]] = []
    before = None
    for at, value in shown:
        if before is None or at - before > max(GAP_MS, 2 * hours * 3_600_000 // MOST_POINTS):
            pieces.append([])
        pieces[-1].append(place(at, value))
        before = at
    return Chart(
        name=name,
        unit=unit,
        lines=tuple(" ".join(f"{x},{y}" for x, y in piece) for piece in pieces if len(piece) > 1),
        dots=tuple(piece[0] for piece in pieces if len(piece) == 1),
        most=most,
        last=shown[-1][1] if shown else None,
        hours=hours,
    )


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Of more points than are shown, the highest of each few: a peak is what people look for. The last one stays."""
    few = -(-len(points) // MOST_POINTS)
    if few <= 1:
        return list(points)
    groups = [points[first : first + few] for first in range(0, len(points), few)]
    return [*(max(group, key=lambda point: point[1]) for group in groups[:-1]), points[-1]]
