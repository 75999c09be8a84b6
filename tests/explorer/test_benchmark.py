"""The benchmark of the explorer, without its browser, and the animation in the documentation."""

from pathlib import Path

import pytest

import stochattn as sa
from stochattn.kinds.registry import kind_of

pytest.importorskip("playwright")

from benchmarks.explorer import TARGET_MS, row
from benchmarks.explorer_data import cases, novelty_steps, shared_steps
from benchmarks.explorer_page import Latency

KINDS = {"table": "table", "proteins": "protein", "pictures": "image", "returns": "returns", "signals": "signals"}


def test_a_row_has_the_median_the_quantile_and_the_verdict():
    quick = [Latency(float(wall), 10.0 * wall) for wall in range(1, 12)]
    assert row("slider", quick) == ["slider", "6", "10", "60", "yes"]
    assert row("seed", [Latency(TARGET_MS + 1.0, 1.0)])[-1] == "no"
    assert row("condition", "no element #x") == ["condition", "no element #x", "", "", ""]


def test_every_change_is_another_one():
    # a gallery that was shown before is remembered, and would be shown without any work
    for name, steps in shared_steps(0).items():
        if name != "draw others":  # which chooses a seed itself
            assert len({str(shared_steps(i)[name]) for i in range(12)}) == 12, name
            assert steps[0][0].startswith(("#", "."))
    assert len({str(novelty_steps(i)) for i in range(12)}) == 12


def test_each_file_is_of_its_kind(tmp_path):
    for name, case in cases(tmp_path).items():
        given = dict(zip(case.options[::2], case.options[1::2], strict=True))
        synth = sa.fit(case.path, kind=given.get("--kind"))
        assert synth.kind is kind_of(KINDS[name])
        assert len({str(case.condition(i)) for i in range(12)}) == 12


def test_the_animation_is_small_and_moves():
    from PIL import Image

    path = Path(__file__).parents[2] / "docs" / "explorer.webp"
    assert path.stat().st_size < 2_000_000
    with Image.open(path) as image:
        assert image.n_frames > 15
        first = image.convert("L").tobytes()
        image.seek(image.n_frames - 1)
        assert image.convert("L").tobytes() != first
