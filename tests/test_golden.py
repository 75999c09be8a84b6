"""The recorded results for fixed seeds: every kind of data is among them."""

import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def test_every_kind_of_the_package_has_cases(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(GOLDEN), *sys.path])
    import cases

    assert set(cases.made_items.write_all(tmp_path)) == set(cases.CONDITIONS)
