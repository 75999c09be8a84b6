"""The page around the sections of a report."""

from __future__ import annotations

from .._backend.html import joined, text
from .style import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def document(title: str, *children: str) -> str:
    """A whole page that asks for nothing from elsewhere, and that no script can run in."""
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f'<link rel="icon" href="data:,"><title>{text(title)}</title><style>{STYLE}</style>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{joined(children, chr(10))}</body></html>\n'
