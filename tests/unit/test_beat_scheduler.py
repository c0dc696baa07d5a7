"""A health check sees by the age of a file whether beat still ticks."""

import os
from pathlib import Path

from tasks.app import app
from tasks.beat_scheduler import UNNAMED, BoundedScheduler

LONG_AGO = 1_000_000_000


def test_each_tick_touches_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "beat"
    scheduler = BoundedScheduler(app, schedule={}, lazy=True, schedule_filename=str(file))
    assert not file.exists()
    scheduler.tick()
    assert file.read_bytes() == b""
    os.utime(file, (LONG_AGO, LONG_AGO))
    scheduler.tick()
    assert file.stat().st_mtime > LONG_AGO


def test_a_file_that_cannot_be_written_stops_no_tick(tmp_path: Path) -> None:
    scheduler = BoundedScheduler(app, schedule={}, lazy=True, schedule_filename=str(tmp_path / "no" / "beat"))
    assert scheduler.tick() > 0


def test_where_no_file_is_named_none_is_made() -> None:
    before = set(Path.cwd().iterdir())
    BoundedScheduler(app, schedule={}, lazy=True, schedule_filename=UNNAMED).tick()
    assert set(Path.cwd().iterdir()) == before
    assert app.conf.beat_schedule_filename == UNNAMED
