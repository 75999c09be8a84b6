"""A page in a real browser."""

import shutil
from contextlib import contextmanager

from playwright.sync_api import TimeoutError

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
REASON = "no chromium, chromium-browser or google-chrome is installed"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update"),
)
WAIT = 40_000
"""Milliseconds that a page may take: machines that run tests are busy."""
# Shadow roots hide their elements from document.querySelector.
FIND_ALL = """
const findAll = (selector, root = document) => [...root.querySelectorAll("*")].flatMap((one) =>
  [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? findAll(selector, one.shadowRoot) : [])]);
"""


class Page:
    """A page in the browser, and what a user does on it."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.requests, self.problems = [], []
        page.set_default_timeout(WAIT)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.goto(server.address)
        self.wait_for_drawn(1)

    def __getitem__(self, selector):
        return self.page.locator(selector)

    @property
    def drawn(self):
        """How many galleries were shown."""
        return int(self["[data-drawn]"].first.get_attribute("data-drawn"))

    @property
    def gallery(self):
        return self.page.get_by_role("region", name="New ").first

    def wait_for_drawn(self, least):
        script = "return Number(findAll('.gallery[data-drawn]')[0]?.dataset.drawn ?? 0) >= least"
        self.page.wait_for_function(f"(least) => {{ {FIND_ALL} {script} }}", arg=least)

    @contextmanager
    def changes(self):
        """What happens in this block must lead to another gallery."""
        before, html = self.drawn, self.html
        yield
        self.wait_for_drawn(before + 1)
        assert self.html != html

    @property
    def html(self):
        return self.gallery.inner_html()

    def text(self, selector):
        return self[selector].inner_text()

    def wait_for_text(self, selector, part):
        script = "return findAll(selector).some((one) => one.textContent.includes(part))"
        try:
            self.page.wait_for_function(f"([selector, part]) => {{ {FIND_ALL} {script} }}", arg=[selector, part])
        except TimeoutError:
            found = self.evaluate("return findAll(given[0]).map((one) => one.textContent)", selector)
            problems = [one for one in self[".problem"].all_inner_texts() if one]
            raise AssertionError(f"{part!r} is not in {selector}: {found}; {problems}") from None

    def wait_until(self, script, value):
        """Wait until a script returns this value; what the page is told, it shows a moment later."""
        same = f"(value) => JSON.stringify((() => {{ {FIND_ALL} {script} }})()) === JSON.stringify(value)"
        try:
            self.page.wait_for_function(same, arg=value)
        except TimeoutError:
            raise AssertionError(f"{self.evaluate(script)} is not {value}") from None

    def slide(self, selector, position):
        """Move a slider as a mouse does."""
        move = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input', {bubbles: true})); }"
        self[selector].evaluate(move, position)

    def evaluate(self, script, *arguments):
        return self.page.evaluate(f"(given) => {{ {FIND_ALL} {script} }}", list(arguments))
