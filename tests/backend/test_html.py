"""Escaping of text from files, and formatting of numbers and shares."""

from html.parser import HTMLParser

import pytest

from stochattn._backend import html
from stochattn._backend.html import Html, img, join, name, number, png, share, svg, table, tag, text

NASTY = "<script>alert('x')</script> & \"quoted\" \x00\x1b[31m\x85 \ud800"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text between them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.content = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.content += data


def test_text_is_escaped_and_has_no_control_characters():
    found = text(NASTY)
    assert not set("<>\"'") & set(found)
    assert Elements(found).elements == []
    assert Elements(found).content.startswith("<script>alert('x')</script> & \"quoted\"")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in found)


def test_tabs_and_line_ends_stay():
    assert text("a\tb\nc\rd") == "a\tb\nc\rd"


@pytest.mark.parametrize("length", [159, 160, 161, 10**6])
def test_long_text_is_truncated_before_it_is_escaped(length):
    found = Elements(text("<" * length)).content
    assert found == ("<" * length if length <= 160 else "<" * 159 + "…")
    assert text("abcdef", 3) == "ab…"


@pytest.mark.parametrize(
    "page",
    [
        tag("p", NASTY),
        tag("p", "fine", title=NASTY, class_=NASTY, aria_label=NASTY),
        join([NASTY, tag("p", NASTY)]),
        join(["a", "b"], NASTY),
        img(png(b"\x89PNG"), NASTY, title=NASTY),
        img(f'x" onerror="{NASTY}', "alt"),
        name(NASTY),
        table([NASTY], [[NASTY]], NASTY),
        html.wide(tag("p", NASTY), NASTY),
        html.pairs([(NASTY, NASTY)]),
        html.figure(svg(b"<svg/>"), NASTY, NASTY, NASTY),
        html.fold(NASTY, NASTY),
    ],
)
def test_no_element_or_attribute_comes_out_of_text(page):
    assert isinstance(page, Html)
    known = {
        *("p", "img", "bdi", "table", "thead", "tbody", "tr", "th", "td", "div", "dl", "dt", "dd"),
        *("section", "h2", "figure", "figcaption", "details", "summary"),
    }
    attributes = {"title", "class", "aria-label", "src", "alt", "scope", "tabindex", "role", "id"}
    for element, given in Elements(page).elements:
        assert element in known
        assert set(given) <= attributes


def test_html_is_not_escaped_again_and_text_made_of_it_is():
    bold = tag("b", "x")
    assert tag("p", bold) == "<p><b>x</b></p>"
    assert tag("p", bold + "<i>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;i&gt;</p>"


def test_attributes_keep_their_values():
    (element,) = Elements(tag("a", "x", class_="wide", aria_label='say "x" & y')).elements
    assert element == ("a", {"class": "wide", "aria-label": 'say "x" & y'})


def test_names_are_isolated_from_the_text_around_them():
    assert name("a\u202eb", 60) == "<bdi>a\u202eb</bdi>"
    assert Elements(name("x" * 100)).content == "x" * 59 + "…"


def test_pictures_are_embedded():
    (element,) = Elements(img(png(b"\x00\x01"), "a plot", width="30")).elements
    assert element == ("img", {"src": "data:image/png;base64,AAE=", "alt": "a plot", "width": "30"})
    assert svg(b"<svg/>") == "data:image/svg+xml;base64,PHN2Zy8+"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((None, "–"), (float("nan"), "–"), (float("inf"), "–"), (0, "0"), (0.0, "0")),
        *((0.0005, "0.0005"), (0.001, "0.001"), (0.12345, "0.123"), (-3.2, "-3.200"), (12.345, "12.3")),
        *((999.9, "1e+03"), (1234.5, "1,234"), (9_999_999, "9,999,999"), (1e7, "1e+07")),
    ],
)
def test_numbers(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((0.0, "0"), (1.0, "100"), (0.5, "50"), (0.0512, "5.1"), (0.05, "5"), (0.0995, "10"), (0.995, "99.5")),
        *((1e-9, "< 0.1"), (0.0009, "< 0.1"), (1 - 1e-9, "> 99.9"), (0.9995, "> 99.9"), (0.654, "65")),
    ],
)
def test_shares_are_percentages(value, expected):
    assert share(value) == f"{expected}\u00a0%"


def test_an_unknown_share_is_a_dash():
    assert share(float("nan")) == "–"
