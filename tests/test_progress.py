"""Progress bars: the outermost one says how long it all takes."""

from stochattn._backend import progress as _progress
from stochattn._backend.progress import Progress


def test_a_bar_within_a_bar_is_not_shown(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    opened = []
    monkeypatch.setattr(Progress, "_open", lambda self: opened.append(self.label) or setattr(self, "_bar", Silent()))
    with Progress(3, "outer", True) as outer:
        with Progress(5, "inner", True) as inner:
            inner.at(1)
        outer.at(1)
    with Progress(5, "after", True) as after:
        after.at(1)
    assert opened == ["outer", "after"]


class Silent:
    def __init__(self):
        _progress.SHOWN.append(self)

    def update(self, task, completed):
        pass

    def stop(self):
        pass
