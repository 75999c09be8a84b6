"""Progress bars: only the outermost one is shown."""

from stochattn._backend import progress as _progress
from stochattn._backend.progress import Progress


def test_a_bar_within_a_bar_is_not_shown(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.0)
    opened = []
    monkeypatch.setattr(Progress, "_opened", lambda self: opened.append(self.label) or Silent())
    with Progress(3, "outer", True) as outer:
        with Progress(5, "inner", True) as inner:
            inner.update(1)
        outer.update(1)
    with Progress(5, "after", True) as after:
        after.update(1)
    assert opened == ["outer", "after"]


class Silent:
    task_ids = (0,)

    def __init__(self):
        _progress.SHOWN.append(self)

    def update(self, task, completed):
        pass

    def stop(self):
        pass
