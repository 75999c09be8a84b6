"""Images with few levels, as scikit-learn's digits from 0 to 16, are shown from black to white; files keep levels."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import stochattn as sa
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.images.kind import KIND
from stochattn.kinds.images.writing import ShownLevels

DIGITS = load_digits().images[:20].astype(np.uint8)


def embedded(html):
    """The images on a page."""
    found = re.findall(r"base64,([A-Za-z0-9+/=]+)", html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


def gallery(stored, new, **options):
    shown = GalleryItems(new, np.arange(1), np.array([1]), np.array([0.25]), {}, **options)
    return KIND.display.gallery(sa.fit(stored, kind="image").codec, shown)


@pytest.mark.parametrize(
    ("darkest", "brightest", "shown"),
    [(0, 16, (0, 16)), (60, 187, (60, 187)), (60, 188, (0, 255)), (0, 255, (0, 255)), (7, 7, (0, 255))],
)
def test_only_a_small_range_is_stretched(darkest, brightest, shown):
    stored = np.full((3, 4, 5), darkest, np.uint8)
    stored[1, 2, 3] = brightest
    levels = ShownLevels.of(stored)
    assert levels == shown
    assert (levels.stretch(stored) == stored).all() == (shown == (0, 255))


def test_levels_between_the_ends_are_in_proportion_and_others_are_cut_off():
    image = np.array([[8, 10, 11, 14], [15, 18, 20, 25]], np.uint8)
    stretched = ShownLevels(10, 20).stretch(image)
    assert stretched.dtype == np.uint8
    assert stretched.tolist() == [[0, 0, 26, 102], [128, 204, 255, 255]]
    every = np.arange(256, dtype=np.uint8)
    assert (ShownLevels().stretch(every) == every).all()


def test_the_gallery_shows_digits_from_black_to_white():
    new = DIGITS[:1].copy()
    new[0, 0, 0] = 2
    html = gallery(DIGITS, new, with_differences=True)
    first, second, difference = embedded(html)
    assert first.tolist() == np.rint(new[0] * (255 / 16)).astype(int).tolist()
    assert second.tolist() == np.rint(DIGITS[1] * (255 / 16)).astype(int).tolist()
    expected = np.minimum(2 * np.abs(first.astype(int) - second), 255)
    assert difference[..., 3].tolist() == expected.tolist()
    about = "New, nearest stored, and where they differ. Pixel values 0 to 16 are shown as black to white."
    assert html.startswith(f'<p class="note">{about}</p>')


def test_a_gallery_of_usual_images_shows_their_own_levels():
    stored = (DIGITS * 12).astype(np.uint8)
    html = gallery(stored, stored[:1])
    assert [one.tolist() for one in embedded(html)] == stored[:2].tolist()
    assert "are shown as" not in html


def test_the_rectangle_is_drawn_on_a_visible_image():
    (control,) = KIND.display.controls(sa.fit(DIGITS).codec)
    assert (control.height, control.width) == (8, 8)
    (shown,) = embedded(control.current({"source": 3})["backdrop"])
    assert shown.tolist() == np.rint(DIGITS[3] * (255 / 16)).astype(int).tolist()


def test_a_contact_sheet_is_stretched_and_other_files_keep_levels(tmp_path):
    synth = sa.fit(DIGITS, generator="hopfield")
    for name in ("sheet.png", "new.npy", "folder"):
        synth.write(tmp_path / name, 4, rng=0)
    new = np.load(tmp_path / "new.npy")
    assert new.max() < 64
    assert np.asarray(Image.open(tmp_path / "folder" / "new-000001.png")).tolist() == new[0].tolist()
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    expected = np.clip(np.rint(new[0] * (255 / 16)), 0, 255)
    assert sheet[2:66:8, 2:66:8].tolist() == expected.tolist()  # pixels are squares of 8, after a margin of 2


def test_the_control_of_a_colour_image_has_its_height_and_width():
    stored = np.random.default_rng(0).integers(0, 256, (6, 9, 12, 3)).astype(np.uint8)
    synth = sa.fit(stored, "image")
    (control,) = synth.kind.display.controls(synth.codec)
    assert (control.height, control.width) == (9, 12)
