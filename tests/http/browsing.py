"""A person at the page: reads it, follows its links and sends its forms, as a browser would."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx2

from tests.http.conftest import READY_S

# Elements of HTML that have no end tag; those of SVG are written with one.
VOID = frozenset(("meta", "link", "input", "br"))
CONTROLS = frozenset(("input", "select", "button"))


@dataclass
class Form:
    """A form with its fields as they are filled in, and the words on its button."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    button: str = ""


class Page(HTMLParser):
    """A page as it was answered. `elements`: every start tag with its attributes; `text`: what is read."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.forms: list[Form] = []
        self.text = ""
        self._open: list[str] = []
        self._form: Form | None = None
        self._select: str | None = None
        self.feed(html)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form":
            self._form = Form(found.get("action") or "", (found.get("method") or "get").upper())
            self.forms.append(self._form)
        if self._form is None:
            return
        if tag == "select":
            self._select = found.get("name")
        name, value = found.get("name"), found.get("value") or ""
        if tag == "input" and name and found.get("type") != "checkbox":
            self._form.fields[name] = value
        if (
            tag == "option"
            and self._select
            and (self._select not in self._form.fields or "selected" in found)
        ):
            self._form.fields[self._select] = value

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"{tag} was never opened"
        assert self._open.pop() == tag, f"{tag} closes another element"
        if tag == "form":
            self._form = None
        if tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._form is not None and self._open and "button" in self._open:
            self._form.button += data

    @property
    def words(self) -> str:
        """What is read, with one blank between words."""
        return re.sub(r"\s+", " ", self.text)

    def form(self, button: str) -> Form:
        """The first form whose button begins with these words."""
        found = [form for form in self.forms if form.button.strip().startswith(button)]
        assert found, f"no button {button!r} among {[form.button for form in self.forms]}"
        return found[0]

    def ids(self) -> list[str]:
        """Every id, in order."""
        return [found["id"] or "" for _, found in self.elements if "id" in found]


class Browser:
    """Keeps cookies, sends the origin with each form, and follows where it is sent."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.client = httpx2.Client(base_url=self.url, timeout=READY_S)

    def get(self, path: str = "/", status: int = 200) -> Page:
        """A page."""
        answer = self.client.get(path, follow_redirects=True)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    def send(self, form: Form, **more: str) -> httpx2.Response:
        """Sends a form, with some fields filled in; the answer to it."""
        parts = urlsplit(self.url)
        headers = {"origin": f"{parts.scheme}://{parts.netloc}"}
        return self.client.post(
            urljoin(self.url + "/", form.action), data={**form.fields, **more}, headers=headers
        )

    def done(self, form: Form, **more: str) -> Page:
        """Sends a form that is accepted; the page where it leads."""
        answer = self.send(form, **more)
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"])

    def sign_in(self, token: str) -> Page:
        """Signs in."""
        return self.done(self.get("/sign-in").form("Sign in"), token=token)
