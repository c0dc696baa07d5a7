"""The page for people, over HTTP: what it shows in each state, whom it lets act, and what it never does."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.http.page.acts import MOST_REPLAYED
from neo4j_queue.http.page.rendering import HEADERS
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from tests.conftest import MakeSettings
from tests.http import page_scenes as scenes
from tests.http.browsing import CONTROLS, Browser, Page
from tests.http.conftest import BOUND_S, CALM, Proxies, Scene, Server, serving
from tests.queue.scenery import make_jobs
from tests.waiting import wait_until

TOKEN = "a-token-of-tests-and-of-no-worth"
HEALTH_FRESH_S = 1.1
PAGES = ("/", "/dead", "/entity", "/entity?name=Nobody", "/sign-in")


@pytest.fixture(scope="module")
def acting_server(
    services: LocalServices, proxies: Proxies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with a token."""
    environment = {
        **proxies.environment(services),
        "SERVE_TOKEN": TOKEN,
        "EMBEDDING_RATE_LIMIT_TOKENS": "60",
    }
    with serving(environment, tmp_path_factory.mktemp("page")) as server:
        yield server


@pytest.fixture
def scene(
    acting_server: Server,
    proxies: Proxies,
    graph_db: Database,
    jobs_db: Database,
    redis_url: str,
    make_settings: MakeSettings,
) -> Scene:
    """The server before empty databases, each look of which is a new one."""
    settings = make_settings(embedding_rate_limit_tokens="unlimited", embed_batch_size=20)
    acting_server.is_well()
    return Scene(acting_server, proxies, settings, EmbedQueue(jobs_db, settings), graph_db, jobs_db)


@pytest.fixture
def browser(scene: Scene) -> Iterator[Browser]:
    """A person who has not signed in."""
    opened = Browser(scene.server.url)
    # The first look of a server opens its connections.
    wait_until(lambda: "Not known" not in opened.get().words, within_s=30, what="everything is known")
    yield opened
    opened.client.close()


@pytest.fixture
def signed_in(browser: Browser) -> Browser:
    """A person who has."""
    assert "Sign out" in browser.sign_in(TOKEN).text
    return browser


def again() -> None:
    """Lets the last look at the health grow old."""
    time.sleep(HEALTH_FRESH_S)


def test_an_empty_queue_is_shown_as_such(browser: Browser) -> None:
    page = browser.get()
    assert page.words.count("HEALTHY") == 2, "title and heading"
    for said in (
        "nothing is to be done",
        "No job has failed for good",
        "No embed worker answered",
        "Everything works",
    ):
        assert said in page.words
    assert "not known yet: a sample is taken once a minute" in page.words
    covered = wait_until(
        lambda: "Counted at" in browser.get().words, within_s=15, what="the coverage is counted"
    )
    assert covered


def test_a_healthy_backlog_tells_depth_rate_end_and_workers(scene: Scene, browser: Browser) -> None:
    scenes.workers(scene.queue, "embed@host-1", "embed@host-2")
    scenes.backlog(scene.queue, 130)
    drained = sum(scenes.drained(scene.queue) for _ in range(3))
    scene.queue.lease("control", batches=1)
    scenes.history(scene.queue, [130, 120, 100, 90], per_minute=60)
    again()
    page = browser.get()
    assert drained == 60
    figures = dict(re.findall(r"<dt>(\w+)</dt><dd>(?:<a[^>]*>)?([\d,]+)", page.html))
    assert figures["Pending"] == "50"
    assert figures["Processing"] == "20"
    assert figures["Completed"] == "60"
    assert re.search(r"Done at ?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.words), page.words
    assert "60 vectors a minute" in page.words
    assert "embed@host-1" in page.words
    assert "0 of 4 slots at work" in page.words
    lines = [found["points"] for tag, found in page.elements if tag == "polyline"]
    assert [len((line or "").split()) for line in lines] == [4, 3]


def test_a_halted_queue_says_why_what_helps_and_resumes(scene: Scene, signed_in: Browser) -> None:
    scene.queue.halt("the provider refused the key")
    again()
    page = signed_in.get()
    assert "CRITICAL" in page.words
    assert "halted: the provider refused the key" in page.words
    assert "neo4j-queue resume" in page.words
    assert "Resumed." in signed_in.done(page.form("Resume")).words
    assert not scene.queue.control.state().halted


def test_dead_letters_are_shown_explained_and_replayed(scene: Scene, signed_in: Browser) -> None:
    scenes.entities(EntityGraph.from_settings(scene.settings, database=scene.graph_db), ["Ada"])
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada"])
    again()
    page = signed_in.get()
    assert "1 failed for good" in page.words
    assert "the input is too long" in page.words
    assert "HTTP 400" in page.words
    letter = signed_in.get(f"/dead/{job_id}")
    assert "The last attempts that failed" in letter.words
    assert "embed@host-1" in letter.words
    explained = signed_in.get("/entity?name=Ada")
    assert "not_queued" in explained.words or "failed" in explained.words
    assert "what Ada is" not in explained.html, "the text itself is not shown"
    assert "characters, about" in explained.words
    done = signed_in.done(letter.form("Replay"))
    assert "Queued again." in done.words
    job = scene.queue.job(job_id)
    assert job is not None
    assert job["status"] == "pending"
    # The form is still on the person's screen: a second press says what is so.
    assert "no dead letter any more" in signed_in.done(letter.form("Replay")).words


def test_dead_letters_of_a_kind_are_replayed_within_the_limit(scene: Scene, signed_in: Browser) -> None:
    scenes.dead_letters(scene.queue, [f"long {n}" for n in range(5)])
    scenes.dead_letters(scene.queue, ["other"], error_type="RateLimitError", status=429)
    again()
    page = signed_in.get("/dead?type=BadRequestError")
    assert "5 dead letters of this kind" in page.words
    assert "RateLimitError" not in page.words.partition("of this kind")[2]
    form = page.form("Replay the latest")
    assert signed_in.send(form, most="2").status_code == 400, "the box was not ticked"
    assert signed_in.send(form, most=str(MOST_REPLAYED + 1), confirmed="yes").status_code == 400
    assert "2 jobs queued again." in signed_in.done(form, most="2", confirmed="yes").words
    assert scene.queue.status().failed == 4
    (other,) = [job for job in scene.queue.dead.find() if job["entity_uid"] == "other"]
    assert other["error_status"] == 429


def test_pause_resume_and_release(scene: Scene, signed_in: Browser) -> None:
    scenes.workers(scene.queue, "embed@host-1")
    scenes.backlog(scene.queue, 20)
    (lease,) = scene.queue.lease("control", batches=1).leases
    scene.queue.start(lease.token, lease.job_ids, worker="embed@host-1")
    again()
    page = signed_in.get()
    assert "1 of 4 slots at work" in page.words
    assert "20 jobs taken back." in signed_in.done(page.form("Release"), confirmed="yes").words
    assert scene.queue.status().pending == 20
    assert (
        "Paused for 10 minutes"
        in signed_in.done(page.form("Pause"), reason="work on the <b>network</b>").words
    )
    again()
    paused = signed_in.get()
    assert "work on the <b>network</b>" in paused.words
    assert ("b", {}) not in paused.elements
    assert "Resumed." in signed_in.done(paused.form("Resume")).words
    assert not scene.queue.control.state().paused
    for wrong in ("0", "-1", "1e9", "x", "9" * 30, ""):
        assert signed_in.send(page.form("Pause"), minutes=wrong).status_code == 400


def test_names_and_errors_are_data_on_every_page(scene: Scene, signed_in: Browser) -> None:
    """Fails without autoescape (the tags are there), and without the escape of what is not seen."""
    scenes.workers(scene.queue, scenes.HOSTILE[:60])
    (job_id,) = scenes.dead_letters(scene.queue, [scenes.HOSTILE], scenes.HOSTILE, error_type=scenes.HOSTILE)
    scene.queue.halt(scenes.HOSTILE)
    again()
    for path in (
        "/",
        "/dead",
        f"/dead/{job_id}",
        httpx2.URL("/entity", params={"name": scenes.HOSTILE}).raw_path.decode(),
    ):
        page = signed_in.get(path)
        assert {found.get("src") for tag, found in page.elements if tag == "script"} == {"/static/page.js"}
        assert "img" not in {tag for tag, _ in page.elements}
        assert scenes.HOSTILE_SHOWN in page.text, path
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", page.text), path
        handlers = [name for _, found in page.elements for name in found if name.startswith("on")]
        assert not handlers
    wide = signed_in.done(signed_in.get(f"/dead/{job_id}").form("Replay"))
    assert "Queued again." in wide.words


def test_without_a_session_nothing_can_be_done(scene: Scene, browser: Browser) -> None:
    """Fails without the look at the session in `_permitted`."""
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada"])
    again()
    for path in ("/", "/dead", f"/dead/{job_id}"):
        assert {form.method for form in browser.get(path).forms} <= {"GET"}
    origin = {"origin": browser.url}
    for act in ("replay", "replay-matching", "pause", "resume", "release"):
        answer = browser.client.post(f"/act/{act}", data={"job": job_id, "minutes": "1"}, headers=origin)
        assert answer.status_code == 403
        assert browser.client.get(f"/act/{act}").status_code == 405, "nothing is done by a GET"
    assert scene.queue.status().failed == 1


def test_a_form_of_another_page_or_session_is_refused(scene: Scene, signed_in: Browser) -> None:
    """Fails without the comparison of the form's token, or of the origin."""
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada"])
    form = signed_in.get(f"/dead/{job_id}").form("Replay")
    post, own = signed_in.client.post, {"origin": signed_in.url}
    without = {name: value for name, value in form.fields.items() if name != "form"}
    assert post(form.action, data=without, headers=own).status_code == 403
    assert post(form.action, data={**form.fields, "form": "x" * 43}, headers=own).status_code == 403
    for origin in ("null", "http://evil.example", "http://localhost:1", signed_in.url + "0"):
        assert post(form.action, data=form.fields, headers={"origin": origin}).status_code == 403, origin
    assert post(form.action, data=form.fields).status_code == 403, "neither origin nor the site of the fetch"
    assert post(form.action, json=form.fields, headers=own).status_code == 400
    assert post(form.action, data={**form.fields, "more": "x" * 20_000}, headers=own).status_code == 400
    other = Browser(scene.server.url)
    other.sign_in(TOKEN)
    assert other.client.post(form.action, data=form.fields, headers=own).status_code == 403
    assert scene.queue.status().failed == 1
    away = signed_in.send(form, back="//evil.example/")
    assert away.headers["location"] == "/"


def test_a_wrong_token_opens_nothing_and_too_many_are_refused(
    scene: Scene, environment: dict[str, str], tmp_path: Path
) -> None:
    """Fails without `wait_s`: the sixth is compared too, and so is the right one after it."""
    with serving({**environment, **CALM, "SERVE_TOKEN": TOKEN}, tmp_path) as server:
        browser = Browser(server.url)
        form = browser.get("/sign-in").form("Sign in")
        answer = httpx2.post(
            f"{browser.url}/sign-in", data={**form.fields, "token": TOKEN}, headers={"origin": browser.url}
        )
        assert answer.status_code == 403, "the form belongs to another browser"
        wrong = [browser.send(form, token=f"{TOKEN}{n}").status_code for n in range(6)]
        assert wrong == [403] * 5 + [429]
        assert browser.send(form, token=TOKEN).status_code == 429
        assert "Sign out" not in browser.get().text
        log = server.log.read_text(encoding="utf-8")
        assert log.count("page_token_wrong") == 5
        assert TOKEN not in log


def test_every_answer_has_its_headers_and_the_session_its_cookie(scene: Scene, browser: Browser) -> None:
    for path in (*PAGES, "/static/page.css", "/static/page.js", "/static/icon.svg", "/dead/none"):
        headers = browser.client.get(path).headers
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert headers[name] == value, path
        assert ("no-store" in headers["cache-control"]) is not path.startswith("/static"), path
    assert "unsafe" not in HEADERS["content-security-policy"]
    form = browser.get("/sign-in").form("Sign in")
    cookie = browser.send(form, token=TOKEN).headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))


def test_pages_can_be_used_by_all(scene: Scene, signed_in: Browser) -> None:
    """Labels, names, headings, a way past the head: what an automatic check of accessibility asks for."""
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada", "Bob"])[:1]
    scenes.workers(scene.queue, "embed@host-1")
    again()
    for path in (*PAGES, f"/dead/{job_id}"):
        page = signed_in.get(path)
        _usable(page, path)


def _usable(page: Page, path: str) -> None:
    ids = page.ids()
    assert len(ids) == len(set(ids)), path
    assert ("html", {"lang": "en"}) in page.elements
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == 1, path
    assert tags.count("main") == 1
    first = next(found for tag, found in page.elements if tag == "a")
    assert first["href"] == "#content"
    assert "content" in ids
    labelled = {found["for"] for tag, found in page.elements if tag == "label" and "for" in found}
    for tag, found in page.elements:
        if tag in CONTROLS and found.get("type") not in ("hidden", "checkbox") and tag != "button":
            assert found.get("id") in labelled, (path, found)
        for reference in ("aria-labelledby",):
            if reference in found:
                assert found[reference] in ids, (path, found)
        if tag in ("svg", "meter"):
            assert found["aria-label"], path
        assert "style" not in found, "the policy forbids styles in elements"
        assert tag != "style", path
    assert all(form.button.strip() for form in page.forms), path


@pytest.mark.parametrize("part", ["graph", "jobs", "redis"])
def test_with_a_service_frozen_each_page_is_there_in_time_and_says_so(
    scene: Scene, browser: Browser, part: str
) -> None:
    """Fails without a bound: the driver waits for a minute."""
    proxy = getattr(scene.proxies, part)
    proxy.freeze()
    again()
    try:
        for path in ("/", "/dead", "/entity?name=Ada"):
            began = time.monotonic()
            page = browser.get(path)
            assert time.monotonic() - began < BOUND_S, path
            if part == "jobs" or (part == "graph" and path != "/dead"):
                says = {"graph": "the graph", "jobs": "the jobs database"}[part]
                assert f"{says} cannot be used" in page.words, path
        if part == "redis":
            again()
            assert "the broker cannot be reached" in browser.get("/").words
    finally:
        proxy.thaw()
    wait_until(lambda: "cannot be" not in browser.get().words, within_s=30, what="it is well again")


@pytest.mark.parametrize(("part", "path"), [("jobs", "/"), ("jobs", "/dead"), ("graph", "/entity?name=Ada")])
def test_a_database_that_froze_a_moment_ago_is_waited_for_no_longer(
    scene: Scene, browser: Browser, part: str, path: str
) -> None:
    """The last look at the health still says that all is well. Fails without the bound of each look."""
    proxy = getattr(scene.proxies, part)
    browser.get(path)
    again()
    browser.get("/sign-in")
    scene.server.get("/health")
    proxy.freeze()
    try:
        began = time.monotonic()
        page = browser.get(path)
        assert time.monotonic() - began < BOUND_S
        assert "HEALTHY" in page.words or path != "/"
        assert "Not known now" in page.words
        assert "gave no answer" in page.words
    finally:
        proxy.thaw()


def test_sixty_thousand_jobs_are_shown_as_soon_as_none(scene: Scene, browser: Browser) -> None:
    """No statement of the page grows with the jobs: 30,000 dead letters of one moment, and as many that wait. Fails
    where a filter walks over all that failed: 3 s."""
    make_jobs(scene.jobs_db, 30_000, at=1_700_000_000_000)
    failed = {
        "status": "failed",
        "failure_reason": "permanent_error",
        "error_category": "PERMANENT",
        "error_type": "BadRequestError",
        "processed_at": 1_700_000_000_000,
    }
    make_jobs(scene.jobs_db, 30_000, first=30_000, **failed)
    scene.jobs_db.autocommit(
        "CYPHER 5 MATCH (j:EmbedJob {status: 'failed'}) CALL (j) { SET j:EmbedFailed } IN TRANSACTIONS OF 10000 ROWS"
    )
    again()
    browser.get()
    for path in ("/", "/dead", "/dead?type=Other"):
        again()
        began = time.monotonic()
        page = browser.get(path)
        assert time.monotonic() - began < BOUND_S / 2, path
        assert "Not known" not in page.words, path


def test_without_a_token_it_is_read_only_and_says_so(
    scene: Scene, environment: dict[str, str], tmp_path: Path
) -> None:
    with serving({**environment, **CALM}, tmp_path) as server:
        browser = Browser(server.url)
        assert "read-only: no SERVE_TOKEN is set" in browser.get().words
        page = browser.get("/sign-in")
        assert "This page is read-only" in page.words
        assert [form.method for form in page.forms] == []
        visitor = {"origin": browser.url}
        answer = browser.client.post("/sign-in", data={"token": "", "form": ""}, headers=visitor)
        assert answer.status_code == 403


def test_addresses_and_forms_that_no_page_makes(scene: Scene, signed_in: Browser) -> None:
    """Each has an answer of its own, and none is an error of the server."""
    (job_id,) = scenes.dead_letters(scene.queue, ["Ada"])
    again()
    expected = {
        "/?hours=abc": 200,
        "/?hours=6&hours=1": 200,
        "/dead?status=abc": 400,
        "/dead?status=%D9%A4%D9%A0%D9%A0": 400,
        "/dead?category=nothing&type=" + "x" * 5_000: 200,
        "/dead/%00": 404,
        "/dead/..%2f..%2fetc%2fpasswd": 404,
        "/dead/%ed%a0%80": 404,
        "/entity?name=%ed%a0%80": 200,
        "/entity?name=%00": 200,
        "/entity?name=" + "n" * 20_000: 200,
        "/entity?name=42": 200,
        "/entity?name=%20": 200,
        "/static/..%2fpages.py": 404,
        "/static/page.html": 404,
        "/nothing": 404,
        "/sign-out": 405,
    }
    for path, status in expected.items():
        assert signed_in.client.get(path).status_code == status, path
    assert signed_in.client.head("/").status_code == 200
    own = {"origin": signed_in.url, "content-type": "application/x-www-form-urlencoded"}
    for body in (b"", b"%", b"form=%ff%fe", b"&" * 100, b"form=\xff", b"a=1&" * 50):
        assert signed_in.client.post("/act/replay", content=body, headers=own).status_code in (400, 403), body
    assert signed_in.send(signed_in.get().form("Pause"), minutes="\u0661").status_code == 400
    form = signed_in.get(f"/dead/{job_id}").form("Replay")
    form.action = "/act/halt"
    assert signed_in.send(form).status_code == 404
    form.action = "/act/release"
    assert "0 jobs taken back." in signed_in.done(form, worker="nobody", confirmed="yes").words
    form.action = "/act/replay"
    assert "no dead letter" in signed_in.done(form, job="\x00").words
    assert scene.queue.status().failed == 1


def test_a_job_that_waits_is_shown_without_a_button_to_replay_it(scene: Scene, signed_in: Browser) -> None:
    scenes.backlog(scene.queue, 1)
    (job,) = scene.queue.jobs()
    page = signed_in.get(f"/dead/{job['id']}")
    assert "pending" in page.words
    assert [form.button.strip() for form in page.forms] == ["Sign out"]


def test_the_sign_out_ends_the_session_on_the_server(scene: Scene, signed_in: Browser) -> None:
    """Fails where only the browser forgets its cookie."""
    form = signed_in.get().form("Sign out")
    cookies = dict(signed_in.client.cookies)
    form_of_an_act = signed_in.get().form("Pause")
    assert "Sign in to act" in signed_in.done(form).words
    signed_in.client.cookies.update(cookies)
    assert signed_in.send(form_of_an_act).status_code == 403
    assert not scene.queue.control.state().paused


def test_behind_a_proxy_it_has_a_name_of_its_own(
    scene: Scene, environment: dict[str, str], tmp_path: Path
) -> None:
    """The cookie is for HTTPS alone, forms of that name are accepted, and other names are refused."""
    with serving(
        {**environment, **CALM, "SERVE_TOKEN": TOKEN}, tmp_path, "--allow-host", "queue.example"
    ) as server:
        https = {"host": "queue.example", "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.7"}
        browser = Browser(server.url)
        browser.client.headers.update(https)
        form = browser.get("/sign-in").form("Sign in")
        browser.client.cookies.set("neo4j_queue_visitor", _visitor(browser))
        own = {"origin": "https://queue.example", "cookie": f"neo4j_queue_visitor={_visitor(browser)}"}
        answer = browser.client.post("/sign-in", data={**form.fields, "token": TOKEN}, headers=own)
        assert answer.status_code == 303, answer.text
        assert "secure" in answer.headers["set-cookie"].lower().split("; ")
        assert '"client":"203.0.113.7"' in server.log.read_text(encoding="utf-8")
        for origin in ("https://queue.example.evil.example", "https://evil.example"):
            refused = browser.client.post(
                "/sign-in", data={**form.fields, "token": TOKEN}, headers={**own, "origin": origin}
            )
            assert refused.status_code == 403
        assert httpx2.get(server.url, headers={"host": "evil.example"}).status_code == 421


def _visitor(browser: Browser) -> str:
    """The cookie, which the client keeps for another name than that of the request."""
    return next(cookie.value or "" for cookie in browser.client.cookies.jar if "visitor" in cookie.name)


def test_many_people_look_at_once(scene: Scene, browser: Browser) -> None:
    """And a probe among them is answered."""
    scenes.dead_letters(scene.queue, ["Ada"])
    again()
    began = time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        looked = [pool.submit(scene.server.get, path) for path in ("/", "/dead", "/health", "/metrics") * 10]
        statuses = [each.result().status for each in looked]
    assert set(statuses) <= {200, 503}
    assert all(b"Not known" not in each.result().body for each in looked)
    assert time.monotonic() - began < 4 * BOUND_S


def test_with_all_services_away_it_says_so_and_shows_no_secret(
    scene: Scene, environment: dict[str, str], tmp_path: Path
) -> None:
    secrets = {
        "SERVE_TOKEN": TOKEN,
        "NEO4J_USERNAME": "neo4j",
        "NEO4J_PASSWORD": "hunter22-of-the-graph",
        "CELERY_BROKER_URL": "redis://:hunter22-of-redis@127.0.0.1:9/0",
    }
    nowhere = {"EMBED_JOB_DATABASE_URI": "bolt://127.0.0.1:9", "NEO4J_URI": "bolt://127.0.0.1:9"}
    with serving({**environment, **CALM, **nowhere, **secrets}, tmp_path) as server:
        browser = Browser(server.url)
        page = browser.sign_in(TOKEN)
        for said in (
            "UNAVAILABLE",
            "the jobs database cannot be used",
            "the graph cannot be used",
            "the broker cannot be reached",
            "Not known: the graph cannot be used.",
        ):
            assert said in page.words
        for path in (*PAGES, "/dead/some-id"):
            html = browser.get(path).html
            assert "hunter22" not in html, path
            assert TOKEN not in html, path
        log = server.log.read_text(encoding="utf-8")
        assert "hunter22" not in log
        assert TOKEN not in log
