"""Parsed HTML pages."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """Elements and attributes of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)
