"""The page in headless Chromium: its buttons, its width, its colours, and that nothing breaks its own policy.

Skipped, loudly, where there is no Chromium (Debian's package `chromium`)."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import history
from tests.celery.conftest import MakeWorld
from tests.http import page_scenes as scenes
from tests.http.chromium import EXECUTABLE, Chromium, chromium
from tests.http.conftest import Scene, make_world, serving
from tests.http.test_page import TOKEN, acting_server, again, scene
from tests.waiting import wait_until

__all__ = ["acting_server", "make_world", "scene"]

pytestmark = pytest.mark.skipif(
    EXECUTABLE is None,
    reason="NO CHROMIUM: the page was not looked at in a browser (Debian's package `chromium`)",
)

DESK, PHONE = (1200, 900), (360, 740)
# Where a person wants the pictures; none are kept otherwise.
SHOTS = os.environ.get("NEO4J_QUEUE_TEST_SHOTS")
# What is wider than the screen, and the elements that make it so.
TOO_WIDE = """
JSON.stringify({page: document.documentElement.scrollWidth, screen: window.innerWidth,
  by: [...document.querySelectorAll("body *")].filter(e => !e.closest(".unseen, .skip") &&
    e.getBoundingClientRect().right > window.innerWidth + 1).map(e => e.outerHTML.slice(0, 120))})
"""
BUTTON = '[...document.querySelectorAll("button, a")].find(e => e.textContent.trim().startsWith("{}"))'
# Colours as they are, of every element that shows words of its own, against the ground that is painted behind them.
CONTRASTS = """
(() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = parts(c).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (parts(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest(".unseen, .skip") || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push([ratio.toFixed(2), e.outerHTML.slice(0, 120)]);
  }
  return JSON.stringify(found);
})()
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser for the module."""
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def browser(tab: Chromium, scene: Scene) -> Chromium:
    """A desk's screen in the light, with no cookie of the test before."""
    tab.call("Network.clearBrowserCookies")
    tab.look_like(*DESK)
    wait_until(
        lambda: b"Not known" not in scene.server.get("/").body, within_s=30, what="everything is known"
    )
    return tab


def shot(tab: Chromium, name: str) -> None:
    """A picture, for a person who wants it."""
    if SHOTS:
        tab.picture(Path(SHOTS) / f"{name}.png")


def sign_in(tab: Chromium, url: str) -> None:
    """As a person does: by the form."""
    tab.open(f"{url}sign-in")
    tab.run(f"document.getElementById('token').value = {json.dumps(TOKEN)}")
    tab.press(BUTTON.format("Sign in").replace("button, a", "main button"))
    assert "Sign out" in tab.run("document.body.innerText")


def fits(tab: Chromium, path: str) -> None:
    """Nothing is wider than the screen, nothing is too pale, nothing broke."""
    found = json.loads(tab.run(TOO_WIDE))
    assert found["page"] <= found["screen"], (path, found)
    assert json.loads(tab.run(CONTRASTS)) == [], path
    assert tab.trouble == [], path


def backlog(scene: Scene) -> None:
    """Two workers at work on a queue that a person filled an hour ago."""
    scenes.workers(scene.queue, "embed@host-1", "embed@host-2")
    scenes.backlog(scene.queue, 1_300)
    for _ in range(3):
        scenes.drained(scene.queue)
    for worker in ("embed@host-1", "embed@host-2"):
        (lease,) = scene.queue.lease("control", batches=1).leases
        scene.queue.start(lease.token, lease.job_ids, worker=worker)
    rise = [n * 150 for n in range(20)]
    fall = [2_850 - n * 35 - (n % 7) * 20 for n in range(45)]
    scenes.history(scene.queue, [*rise, *fall, 1_240], per_minute=40)


def hostile(scene: Scene) -> list[str]:
    """Dead letters of every length and kind."""
    names = [
        "Ada Lovelace",
        "Zweiundvierzig" * 12,
        scenes.HOSTILE,
        "שלום עולם",
        "a/b?c=d&e#f",
        "日本語の名前",
    ]
    ids = scenes.dead_letters(
        scene.queue,
        names,
        "This model's maximum context length is 8192 tokens, however you requested 9411 tokens",
    )
    return ids + scenes.dead_letters(
        scene.queue, ["Grace Hopper"], "x" * 300, error_type="UnprocessableEntityError", status=422
    )


SCENES: dict[str, Callable[[Scene], object]] = {
    "empty": lambda _: None,
    "backlog": backlog,
    "halted": lambda scene: (
        backlog(scene),
        scene.queue.halt("401: Incorrect API key provided: set OPENAI_API_KEY"),
    ),
    "dead-letters": hostile,
}


@pytest.mark.parametrize("name", SCENES)
def test_it_fits_a_desk_and_a_phone_in_light_and_dark(scene: Scene, browser: Chromium, name: str) -> None:
    """Also after the sign-in, when there are buttons. Fails where a name cannot break, or a colour is too pale."""
    SCENES[name](scene)
    again()
    url = scene.server.url
    sign_in(browser, url)
    more = {"backlog": ["?hours=1"], "dead-letters": ["dead", f"entity?name={quote(scenes.HOSTILE)}"]}
    paths = ["", *more.get(name, [])]
    for size, dark in ((DESK, False), (DESK, True), (PHONE, False), (PHONE, True)):
        browser.look_like(*size, dark=dark, phone=size == PHONE)
        for path in paths:
            browser.open(url + path)
            look = f"{name}-{path.partition('?')[0] or 'overview'}{'-' + path[-7:] if '?h' in path else ''}"
            shot(browser, f"{look}-{'phone' if size == PHONE else 'desk'}-{'dark' if dark else 'light'}")
            fits(browser, path)


def test_with_real_workers_a_backlog_is_healthy_and_is_written_down(
    make_world: MakeWorld, tab: Chromium, tmp_path: Path
) -> None:
    """The control worker takes the sample of the minute. Fails without `history.keep` in the lease task."""
    world = make_world(EMBEDDING_RATE_LIMIT_TOKENS="4", EMBEDDING_RATE_LIMIT_INTERVAL="60000")
    samples = "CYPHER 5 MATCH (s:EmbedSample) RETURN count(s) AS n"
    assert world.jobs_db.read(samples)[0]["n"] == 0
    world.celery.control()
    world.celery.embed()
    world.celery.beat()
    world.create(400)
    (taken,) = wait_until(
        lambda: history.read(world.jobs_db, world.queue.census.time()), within_s=60, what="a sample"
    )
    wait_until(lambda: world.queue.status().completed >= 60, within_s=60, what="the first batches")
    assert 0 <= taken.waiting <= 400
    world.jobs_db.write("CYPHER 5 MATCH (s:EmbedSample) DELETE s")
    scenes.history(world.queue, [*range(0, 900, 60), *range(900, 340, -14)], per_minute=14)
    with serving({**world.environment, "SERVE_TOKEN": TOKEN}, tmp_path) as server:
        healthy = lambda: b"HEALTHY" in server.get("/").body and b"Counted at" in server.get("/").body  # noqa: E731
        wait_until(healthy, within_s=60, what="all is well and known")
        for size, dark in ((DESK, False), (DESK, True), (PHONE, False)):
            tab.look_like(*size, dark=dark, phone=size == PHONE)
            tab.open(server.url)
            shot(tab, f"healthy-backlog-{'phone' if size == PHONE else 'desk'}-{'dark' if dark else 'light'}")
            fits(tab, "/")
        words = tab.run("document.body.innerText")
        assert "HEALTHY" in words
        assert "the rate limit" in words, "what it waits for"
        assert re.search(r"Done at\s+20\d\d-", words)
        assert "of 4 per 60 s" in words


def test_a_dead_letter_is_replayed_by_its_button(scene: Scene, browser: Chromium) -> None:
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada Lovelace"])
    again()
    browser.open(scene.server.url)
    assert browser.run(BUTTON.format("Replay")) is None, "read-only without a session"
    sign_in(browser, scene.server.url)
    browser.press(BUTTON.format("Replay"))
    assert "Queued again." in browser.run("document.body.innerText")
    assert browser.trouble == []
    job = scene.queue.job(job_id)
    assert job is not None
    assert job["status"] == "pending"
    browser.press(BUTTON.format("Sign out"))
    assert "Sign in to act" in browser.run("document.body.innerText")


def test_by_keyboard_alone_one_gets_past_the_head_and_acts(scene: Scene, browser: Chromium) -> None:
    """The first key shows the way to the content; each stop has a visible frame; Enter presses."""
    scenes.dead_letters(scene.queue, ["Ada Lovelace"])
    again()
    sign_in(browser, scene.server.url)
    browser.open(scene.server.url)
    browser.key("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0
    browser.key("Enter")
    for _ in range(40):
        browser.key("Tab")
        stop = browser.run("document.activeElement.tagName")
        if stop not in ("BODY", "INPUT"):
            frame = browser.run("getComputedStyle(document.activeElement).outlineStyle")
            assert frame == "solid", browser.run("document.activeElement.outerHTML")
        if browser.run("document.activeElement.textContent").strip().startswith("Replay"):
            break
    browser.events.clear()
    browser.key("Enter")
    browser.wait_loaded()
    assert "Queued again." in browser.run("document.body.innerText")


def test_it_looks_again_by_itself_without_moving_what_a_person_is_at(scene: Scene, browser: Chromium) -> None:
    """Fails without the look at the active element: the button under the finger would be another one."""
    scene.queue.halt("for a test")
    again()
    sign_in(browser, scene.server.url)
    assert browser.run("document.getElementById('looks-again').checked")
    browser.run("document.getElementById('find').value = 'Ad'")
    browser.run(BUTTON.format("Resume") + ".focus()")
    scene.queue.resume()
    scenes.backlog(scene.queue, 7)
    again()
    browser.run("lookAgain()")
    assert "7" in browser.run("document.getElementById('depth').innerText")
    assert browser.run("document.activeElement.innerText") == "Resume"
    browser.run("document.activeElement.blur()")
    browser.run("lookAgain()")
    assert browser.run(BUTTON.format("Resume")) is None
    assert "halted" not in browser.run("document.getElementById('health').innerText")
    assert browser.run("document.getElementById('find').value") == "Ad"
    assert "HEALTHY" not in browser.run("document.title")
    assert browser.trouble == []


def test_it_works_without_scripts(scene: Scene, browser: Chromium) -> None:
    scenes.entities(EntityGraph.from_settings(scene.settings, database=scene.graph_db), ["Ada"])
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(f"{scene.server.url}entity?name=Ada")
        root = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        html = browser.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]
        assert "not_queued" in html
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
