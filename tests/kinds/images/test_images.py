"""Images: reading, levels, conditioned pixels, both generators, and files that are written."""

import csv
import io
import json
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

import stochattn as sa
from stochattn._backend.state import load_state, save_state
from stochattn.kinds import Batch, InputError, Settings
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.images.description import ImageHopfieldOptions, ImageOptions, PatchOptions
from stochattn.kinds.images.kind import KIND
from stochattn.kinds.images.writing import contact_sheet

SETTINGS = Settings(seed=1, generator="hopfield", source="images", beta=8.0, version="0")
PAPER = {"centre": False, "variance": None, "whiten": False, "norm": "paper"}
FORMATS = {format.name: format for format in KIND.formats}


def blobs(n=20, height=12, width=10, seed=0):
    """Bright blobs at random places on dark ground: (n, height, width) uint8."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    y, x = rng.uniform(2, height - 2, n), rng.uniform(2, width - 2, n)
    far = (rows - y[:, None, None]) ** 2 + (columns - x[:, None, None]) ** 2
    return (200 * np.exp(-far / 8) + rng.integers(5, 40, (n, height, width))).astype(np.uint8)


def in_colour(n=12, height=8, width=6, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def spots(n=12, size=12, left=True, seed=0):
    """A spot in the left or in the right half, at a random height: (n, size, size) uint8."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    y, x = rng.uniform(1, size - 2, (n, 1, 1)), size / 4 if left else 3 * size / 4 - 1
    return (250 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 4)).astype(np.uint8)


def save(image, path: Path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)


def folder_of(images, path: Path, ending="png"):
    for i, image in enumerate(images):
        save(image, path / f"p{i:02d}.{ending}")
    return path


def read(path, **options):
    return KIND.read(Path(path), ImageOptions(**options))


def codec_of(images, **options):
    return KIND.codec_of(images, ImageOptions(**options))


def fit(images, **options):
    return sa.fit(images, kind="image", **options)


def hopfield(images, **options):
    return fit(images, generator="hopfield", **options)


def drawn(synth, n, seed=0):
    """New images, and the stored one nearest to each."""
    made = synth.generator.sample(n, np.random.default_rng(seed))
    return synth.codec.decode(made.values), made.source


def conditioned(synth, *texts):
    return synth.condition(KIND.parse_condition(synth.codec, texts))


# Levels


@pytest.mark.parametrize("images", [blobs(), in_colour()], ids=["gray", "rgb"])
def test_stored_images_are_decoded_exactly(images):
    codec = codec_of(images)
    levels = codec.encode(images)
    assert levels.dtype == np.float32
    assert levels.shape == images.shape
    assert 0 <= levels.min() <= levels.max() <= 1
    decoded = codec.decode(levels)
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, images)


@pytest.mark.parametrize("options", [{}, {"whiten": False}, {"whiten": False, "variance": None}, {"norm": "whole"}])
@pytest.mark.parametrize("images", [blobs(), in_colour()], ids=["gray", "rgb"])
def test_rows_of_stored_images_are_decoded_exactly(images, options):
    synth = hopfield(images, **options)
    embedding = synth.generator.embedding
    coordinates = embedding.coordinates
    rows = synth.rows(images)
    np.testing.assert_allclose(rows, coordinates.stored, atol=1e-10)
    arrays = embedding.arrays(rows * coordinates.factors(), np.arange(len(rows)), np.random.default_rng(0))
    np.testing.assert_array_equal(synth.codec.decode(arrays), images)


def test_features_are_levels_over_255():
    images = np.array([[[0, 51], [102, 255]], [[255, 0], [0, 0]], [[7, 7], [9, 1]]], dtype=np.uint8)
    expected = np.array([[0, 0.2, 0.4, 1], [1, 0, 0, 0], [7 / 255, 7 / 255, 9 / 255, 1 / 255]])
    np.testing.assert_allclose(codec_of(images).features(images), expected)


def test_a_share_of_the_variance_loses_pixels():
    embedding = hopfield(blobs(), variance=0.8).generator.embedding
    coordinates = embedding.coordinates
    assert 0.8 <= coordinates.variance < 1
    arrays = embedding.arrays(coordinates.stored * coordinates.factors(), None, None)
    assert (codec_of(blobs()).decode(arrays) != blobs()).any()


def test_published_setting_is_pixels_of_unit_norm():
    images = blobs()
    synth = fit(images, **PAPER)
    flat = images.reshape(20, -1).astype(float)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(synth.stored_rows, unit)
    arrays = synth.generator.embedding.arrays(unit, None, None)
    np.testing.assert_array_equal(synth.codec.decode(arrays), np.rint(unit * 255).reshape(images.shape))
    assert "dark" in synth.notes[-1]


def test_noise_follows_the_stored_images_by_default():
    # A pixel that is the same in every stored image has no noise, and smooth images stay smooth.
    images = blobs()
    images[:, 0, 0] = 17
    new = hopfield(images).sample(50, rng=0)
    assert (new[:, 0, 0] == 17).all()
    white = hopfield(images, variance=None, whiten=False).sample(50, rng=0)
    assert np.ptp(white[:, 0, 0]) > 0


def test_default_options():
    options = ImageHopfieldOptions()
    assert (options.centre, options.variance, options.whiten, options.norm) == (True, 1.0, True, "restored")
    assert (PatchOptions().warp, PatchOptions().radius) == (None, None)
    assert fit(blobs(), trial=False).choice.name == "deformations"
    assert fit(blobs(), radius=2).choice.name == "patches"
    assert fit(blobs(), beta=8.0).choice.name == "hopfield"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_decoding_clips_and_rounds(dtype):
    levels = np.random.default_rng(0).uniform(-1, 2, (3, 4, 5)).astype(dtype)
    levels[0, 0] = np.array([0.5, 1.5, 2.5, 254.5, 127.5]) / 255
    expected = [min(max(round(float(level * dtype(255))), 0), 255) for level in levels.ravel()]
    decoded = codec_of(blobs()).decode(levels)
    np.testing.assert_array_equal(decoded.ravel(), expected)
    np.testing.assert_array_equal(decoded, np.round(np.clip(levels, 0, 1) * 255).astype(np.uint8))
    assert {0, 255} <= set(expected)


def test_same_take_refit():
    images = blobs()
    codec = codec_of(images)
    changed = images.copy()
    changed[3, 0, 1] += 1
    same = KIND.measures.same(codec, images, changed)
    assert same.shape == (20, 120)
    assert np.argwhere(~same).tolist() == [[3, 1]]
    np.testing.assert_array_equal(codec.take(images, [4, 2]), images[[4, 2]])
    synth = hopfield(images, variance=0.9, whiten=False)
    half = synth.refit(np.arange(10))
    assert half.choice == synth.choice
    assert (half.codec.K, half.codec.shape) == (10, (12, 10))
    np.testing.assert_array_equal(half.codec.stored, images[:10])


def test_state_gives_the_same_codec(tmp_path):
    codec = codec_of(blobs() // 4, ids=[f"b{i}" for i in range(20)], labels=["x", "y"] * 10)
    save_state(tmp_path / "codec.npz", codec.state())
    again = KIND.codec_from_state(load_state(tmp_path / "codec.npz"))
    assert (again.ids, again.labels, again.notes) == (codec.ids, codec.labels, codec.notes)
    assert len(codec.notes) == 1
    np.testing.assert_array_equal(again.stored, codec.stored)


@pytest.mark.parametrize("generator", ["patches", "hopfield"])
def test_a_saved_synthesizer_makes_the_same_draws(tmp_path, generator):
    synth = fit(spots(), labels=["a", "b"] * 6, generator=generator)
    for one in (synth, synth.condition({(2, 3): 200, ((0, 4), (5, 9)): "7"}), synth.subset("a").weight(3, [0, 2])):
        one.save(tmp_path / "saved.synth")
        again = sa.load(tmp_path / "saved.synth")
        np.testing.assert_array_equal(again.sample(3, rng=1), one.sample(3, rng=1))
        assert again.conditions == one.conditions


# Folders


def test_folder_with_subfolders_gives_ids_and_labels(tmp_path):
    images = blobs(4)
    for name, image in zip(("b/2.png", "a/1.png", "a/x/3.BMP", "b/0.tif"), images, strict=True):
        save(image, tmp_path / name)
    save(images[0], tmp_path / ".hidden.png")
    save(images[0], tmp_path / ".cache" / "1.png")
    (tmp_path / "readme.txt").write_text("about")
    codec = read(tmp_path)
    assert codec.ids == ("a/1.png", "a/x/3.BMP", "b/0.tif", "b/2.png")
    assert codec.labels == ("a", "a", "b", "b")
    np.testing.assert_array_equal(codec.stored, images[[1, 2, 3, 0]])
    assert codec.notes == ("1 file is not an image and was skipped",)
    save(images[0], tmp_path / "c.png")
    assert read(tmp_path).labels == ("a", "a", "b", "b", "(none)")


def test_folder_without_subfolders_has_no_labels(tmp_path):
    codec = read(folder_of(blobs(3), tmp_path))
    assert codec.labels is None
    assert codec.stored.shape == (3, 12, 10)


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "gif"])
def test_lossless_formats_are_read_exactly(tmp_path, ending):
    np.testing.assert_array_equal(read(folder_of(blobs(3), tmp_path, ending)).stored, blobs(3))


def test_grey_jpeg_saved_in_colour_stays_grey(tmp_path):
    rng = np.random.default_rng(0)
    for i, image in enumerate(blobs(3, 16, 16)):
        noisy = np.repeat(image[..., None], 3, 2).astype(int) + rng.integers(-3, 4, (16, 16, 3))
        save(np.clip(noisy, 0, 255).astype(np.uint8), tmp_path / f"{i}.jpg", quality=95)
    codec = read(tmp_path)
    assert codec.stored.shape == (3, 16, 16)
    assert "ignored as noise" in codec.notes[0]
    assert read(tmp_path, color=True).stored.shape == (3, 16, 16, 3)
    with pytest.warns(DeprecationWarning, match="color"):
        assert sa.fit(tmp_path, colour=True).codec.stored.shape == (3, 16, 16, 3)
    with pytest.raises(InputError, match=r"^colour is not an option of table data"):  # which never had it
        sa.fit(np.eye(4), kind="table", colour=True)


def test_mixed_sizes_and_modes_become_one_with_a_note(tmp_path):
    for i, image in enumerate(blobs(3, 16, 16)):
        save(image, tmp_path / f"gray{i}.png")
    red = np.full((32, 24, 3), (250, 10, 10), dtype=np.uint8)
    save(red, tmp_path / "red.png")
    Image.fromarray(red).convert("P").save(tmp_path / "palette.gif")
    Image.new("1", (16, 16), 1).save(tmp_path / "white.png")
    codec = read(tmp_path)
    assert codec.stored.shape == (6, 16, 16, 3)
    np.testing.assert_array_equal(codec.stored[codec.ids.index("red.png")], red[:16, :16])
    assert (codec.stored[codec.ids.index("white.png")] == 255).all()
    assert codec.notes == (
        "2 of 6 images were resized to 16x16 pixels, cropped where the shape differs; size= chooses another",
        "2 of 6 images have color, and all are kept as RGB; color=False makes them gray",
    )
    assert read(tmp_path, color=False).stored.shape == (6, 16, 16)


def test_large_images_are_shrunk_and_size_overrides(tmp_path):
    folder_of(blobs(2, 100, 256), tmp_path)
    assert read(tmp_path).stored.shape == (2, 50, 128)
    assert "resized to 128x50" in read(tmp_path).notes[0]
    assert read(tmp_path, size="64x48").stored.shape == (2, 48, 64)
    assert read(tmp_path, size="256x100").notes == ()


def test_transparent_parts_are_placed_on_white(tmp_path):
    layer = np.zeros((4, 4, 4), dtype=np.uint8)
    layer[:2] = (10, 10, 10, 255)
    save(layer, tmp_path / "a.png")
    save(blobs(1, 4, 4)[0], tmp_path / "b.png")
    codec = read(tmp_path)
    assert codec.stored[0].tolist() == [[10] * 4] * 2 + [[255] * 4] * 2
    assert codec.notes == ("1 image has transparent parts, placed on white",)


def test_sixteen_bit_levels_are_scaled_not_clipped(tmp_path):
    save(np.full((4, 4), 257 * 100, dtype=np.uint16), tmp_path / "a.png")
    save(blobs(1, 4, 4)[0], tmp_path / "b.png")
    assert (read(tmp_path).stored[0] == 100).all()


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_images_of_floats_are_scaled_by_their_range(tmp_path, top):
    levels = np.array([[0.0, 0.2], [0.6, 1.0]], dtype=np.float32)
    save(levels * np.float32(top), tmp_path / "a.tif")
    save(np.eye(2, dtype=np.uint8), tmp_path / "b.png")
    codec = read(tmp_path)
    assert codec.stored[0].tolist() == [[0, 51], [153, 255]]
    assert codec.notes == ("1 image has more than 8 bits, scaled to 0 to 255",)
    save(levels - np.float32(0.5), tmp_path / "a.tif")
    with pytest.raises(InputError, match=r"a\.tif cannot be read as an image \(pixel values outside 0 to 1\)"):
        read(tmp_path)


def test_the_orientation_of_a_camera_is_respected(tmp_path):
    image = np.zeros((16, 8), dtype=np.uint8)
    image[:, 4:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate clockwise by 90 degrees
    save(image, tmp_path / "a.jpg", exif=exif, quality=100)
    save(blobs(1, 8, 16)[0], tmp_path / "b.png")
    codec = read(tmp_path)
    assert codec.stored.shape == (2, 8, 16)
    assert codec.stored[0, 1].max() < 30 < 220 < codec.stored[0, 6].min()


# Arrays


def write_npz(path: Path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz_with_labels(tmp_path):
    path = write_npz(tmp_path / "a.npz", images=blobs(4), target=np.array([0.0, 0.0, 1.0, 2.0]), other=np.eye(3))
    codec = read(path)
    np.testing.assert_array_equal(codec.stored, blobs(4))
    assert codec.labels == ("0", "0", "1", "2")
    assert codec.ids == ("1", "2", "3", "4")


@pytest.mark.parametrize("name", ["images", "X", "data", "arr_0", "anything"])
def test_npz_names(tmp_path, name):
    assert read(write_npz(tmp_path / "a.npz", **{name: blobs(4), "y": np.arange(4)})).K == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x / 255.0,
        lambda x: (x / 255).astype(np.float32),
        lambda x: x.astype(float),
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.uint16) * 257,
        lambda x: x[..., None],
        lambda x: x[:, None],
        lambda x: np.repeat(x[..., None], 3, axis=3),
        lambda x: np.repeat(x[:, None], 3, axis=1),
        lambda x: np.concatenate([np.repeat(x[..., None], 3, axis=3), np.full((*x.shape, 1), 255, np.uint8)], axis=3),
    ],
)
def test_ranges_and_axes_are_recognised(tmp_path, change):
    np.save(tmp_path / "a.npy", change(blobs(5)))
    np.testing.assert_array_equal(read(tmp_path / "a.npy").stored, blobs(5))


def test_arrays_with_an_opacity_are_placed_on_white():
    images = np.full((2, 3, 3, 4), (100, 20, 0, 255), dtype=np.uint8)
    images[1, 0, 0, 3] = 51  # a fifth
    codec = codec_of(images)
    assert codec.stored[0, 0, 0].tolist() == [100, 20, 0]
    assert codec.stored[1, 0, 0].tolist() == [224, 208, 204]
    assert codec.notes == ("transparent parts were placed on white",)


def test_levels_from_0_to_1_are_read_without_a_note():
    codec = codec_of(blobs() / 255.0)
    np.testing.assert_array_equal(codec.stored, blobs())
    assert codec.notes == ()
    assert codec_of(np.array([[[0, 1]], [[1, 0]]])).notes == ("pixel values 0 and 1 were read as black and white",)


def test_channel_first_colour_is_recognised():
    np.testing.assert_array_equal(codec_of(np.moveaxis(in_colour(), 3, 1)).stored, in_colour())


def test_black_and_white_and_dark_levels_are_noted():
    binary = (blobs() > 100).astype(np.uint8)
    codec = codec_of(binary)
    np.testing.assert_array_equal(codec.stored, binary * 255)
    assert "black and white" in codec.notes[0]
    sixteen = np.round(blobs() / blobs().max() * 16)
    assert codec_of(sixteen).notes == (
        "the largest pixel value is 16 of 255, so images are dark; rescale them if this is wrong",
    )


def test_arrays_in_memory_take_the_options_of_files():
    images = blobs(4)
    codec = codec_of(images, ids="abcd", labels=[0, 0, 1, 1], size="5x6")
    assert codec.stored.shape == (4, 6, 5)
    assert (codec.ids, codec.labels) == (("a", "b", "c", "d"), ("0", "0", "1", "1"))
    assert codec_of(blobs(2, 200, 10)).stored.shape == (2, 200, 10)
    assert codec_of(images, color=True).stored.shape == (4, 12, 10, 3)


def test_recognition(tmp_path):
    assert KIND.recognizes(tmp_path)
    np.save(tmp_path / "rows.npy", np.eye(3))
    np.save(tmp_path / "images.npy", blobs(3))
    assert not KIND.recognizes(tmp_path / "rows.npy")
    assert KIND.recognizes(tmp_path / "images.npy")
    assert KIND.recognizes(tmp_path / "any.npz")
    assert not KIND.recognizes(tmp_path / "table.csv")
    with pytest.raises(InputError, match=r"a\.JPG is one \w+, and at least two are needed: name the folder"):
        KIND.recognizes(tmp_path / "a.JPG")
    assert [KIND.accepts(np.zeros((2,) * axes)) for axes in (2, 3, 4, 5)] == [False, True, True, False]
    assert not KIND.accepts([[[1]]])


# Bad input


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bad_folder(kind: str, path: Path) -> Path:
    path.mkdir()
    if kind == "empty":
        return path
    if kind == "other":
        (path / "a.txt").write_text("x")
        return path
    save(blobs(1, 40, 40)[0], path / "a.png")
    if kind == "one":
        return path
    whole = (path / "a.png").read_bytes()
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = {
        "truncated": whole[: len(whole) // 2],
        "corrupt": whole[:60] + b"\x00" * 40 + whole[100:],
        "text": b"this is not an image",
        "zero": b"",
        "bomb": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
        "large": b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head.replace(struct.pack(">I", 60_000), struct.pack(">I", 10_000)))
        + chunk(b"IDAT", b"")
        + chunk(b"IEND", b""),
    }
    (path / "b.png").write_bytes(content[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", "has no file"),
        ("other", "no image among its 1 file:"),
        ("one", "holds one image"),
        ("truncated", "b.png cannot be read as an image"),
        ("corrupt", "b.png cannot be read as an image"),
        ("text", "b.png cannot be read as an image (its format is not supported)"),
        ("zero", "b.png cannot be read as an image (the file is empty)"),
        ("bomb", "b.png has more than"),
        ("large", "b.png has more than"),
    ],
)
def test_bad_folders_are_named_in_one_line(tmp_path, kind, words):
    with pytest.raises(InputError) as caught:
        read(bad_folder(kind, tmp_path / "images"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


NAN = blobs(4).astype(float)
NAN[2, 3, 3] = np.nan


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": blobs(3), "b": blobs(4)}, "several arrays that could be images: a (3, 12, 10), b (4, 12, 10)"),
        ({"images": np.array([None, {}], dtype=object)}, "Python objects (images)"),
        (
            {"X": np.eye(4)},
            "one row per example, as in a table. Save it as a two-dimensional .npy file",
        ),
        ({"names": np.array(["a", "b"])}, "has no images (names (2,))"),
        ({}, "no array"),
        ({"images": NAN}, "image 3 has NaN"),
        ({"images": blobs(4).astype(int) - 50}, "values run from"),
        ({"images": blobs(4) * 1e6}, "values run from"),
        ({"images": np.zeros((3, 0, 4))}, "has no pixel"),
        ({"images": np.zeros((3, 5, 5, 2))}, "no axis of 1, 3 or 4 channels"),
        ({"images": in_colour(30, 20, 20)[0]}, "one color image"),
        ({"images": blobs(1)}, "holds one image"),
        ({"images": np.zeros((3, 4, 4), np.uint8)}, "are equal"),
    ],
)
def test_bad_arrays_are_named_in_one_line(tmp_path, arrays, words):
    with pytest.raises(InputError) as caught:
        read(write_npz(tmp_path / "a.npz", **arrays))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.npy",
            b"garbage",
            "a.npy cannot be read as .npy .*: .* a table as a matrix, or images as an array",
        ),
        ("a.npz", b"PK\x03\x04garbage", "a.npz cannot be read"),
        ("a.npz", b"", "a.npz cannot be read"),
        ("a.png", b"x", "one image"),
        ("a.mp4", b"x", "extension '.mp4'"),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_two_dimensional_and_object_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(5))
    with pytest.raises(InputError, match="kind='table'"):
        read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        read(tmp_path / "b.npy")
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.npy")


@pytest.mark.parametrize("size", ["64", "0x5", "axb", "64x", "-3x4", "99999x3"])
def test_bad_sizes(tmp_path, size):
    with pytest.raises(InputError, match="such as 64x48"):
        read(folder_of(blobs(2), tmp_path), size=size)


def test_bad_options_and_names():
    with pytest.raises(InputError, match="principal components"):
        hopfield(blobs(), centre=False).sample(1, rng=0)
    with pytest.raises(InputError, match=r"ids must name each of the 20 \w+; got 3"):
        codec_of(blobs(), ids=["a", "b", "c"])
    with pytest.raises(InputError, match=r"labels must name each of the 20 .*; got 1"):
        fit(blobs(), labels=["a"])
    black = np.concatenate([blobs(), np.zeros((1, 12, 10), np.uint8)])
    with pytest.raises(InputError, match="item 21 is all zeros"):
        fit(black, **PAPER).sample(1, rng=0)
    for name in ("warp", "radius"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number"):
            fit(spots(), **{name: np.nan})
    with pytest.raises(InputError, match="warp, beta belong to different generators"):
        fit(spots(), warp=1, beta=8.0)


# Conditioned pixels


def test_conditioned_pixels_have_their_levels():
    synth = hopfield(blobs())
    new = synth.condition({(2, 3): 120, (-1, 9): 60}).sample(200, rng=0)
    assert (new[:, 2, 3] == 120).all()
    assert (new[:, 11, 9] == 60).all()
    assert np.ptp(new[:, 5, 5]) > 0
    np.testing.assert_array_equal(conditioned(synth, "3,4=120", " 12 , 10 = 60").sample(200, rng=0), new)


def test_conditioned_colours_have_their_levels():
    synth = hopfield(in_colour())
    new = synth.condition({(1, 2): (200, 100, 50), (0, 0): 77}).sample(50, rng=0)
    assert (new[:, 1, 2] == [200, 100, 50]).all()
    assert (new[:, 0, 0] == 77).all()
    np.testing.assert_array_equal(conditioned(synth, "2,3=200/100/50", "1,1=77").sample(50, rng=0), new)


def test_a_conditioned_pixel_changes_weights_as_bayes_rule_says():
    # The weight of memory k given the pixel is proportional to its own density there, a normal one in closed form.
    beta = 60.0
    generator = conditioned(fit(blobs(), whiten=False, beta=beta), "6,5=150").generator
    k = generator.sample(40_000, np.random.default_rng(0)).source
    pixel = 5 * 10 + 4
    coordinates = generator.embedding.coordinates
    factor = coordinates.factors(beta)[:, 0]
    outward = coordinates.outward[:, pixel]
    mean = coordinates.mean[pixel] + factor * (coordinates.stored @ outward)
    sd = factor / np.sqrt(beta) * np.linalg.norm(outward)
    density = np.exp(-(((150 / 255 - mean) / sd) ** 2) / 2) / sd
    expected = density / density.sum()
    found = np.bincount(k, minlength=20) / 40_000
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / 40_000)
    assert np.ptp(expected) > 0.02  # the test is not vacuous
    np.testing.assert_allclose(generator.source_probabilities(), expected, atol=1e-9)
    A, y, _ = generator.embedding.observe(generator.observation)[0]
    assert A.shape == (1, coordinates.d)
    assert y.shape == (1,)


@pytest.mark.parametrize("options", [{}, {"variance": None, "whiten": False}])
def test_a_small_rectangle_agrees_with_its_image(options):
    images = blobs()
    synth = conditioned(hopfield(images, ids=[f"b{i}" for i in range(20)], **options), "4:6,5:7=b7")
    new = synth.sample(50, rng=0)
    np.testing.assert_array_equal(new[:, 3:6, 4:7], np.broadcast_to(images[7, 3:6, 4:7], (50, 3, 3)))
    assert np.ptp(new[:, 0, 0].astype(int)) > 0
    assert not any("rectangle" in note for note in synth.notes)


def test_a_large_rectangle_nearly_agrees_with_its_image_and_other_pixels_vary():
    images = blobs()
    synth = hopfield(images)
    given = conditioned(synth, "1:12,1:5=8")
    A = given.generator.embedding.observe(given.generator.observation)[0].A
    assert len(A) == given.generator.embedding.coordinates.d // 2
    share = int(re.search(r"met in 9 of 19 directions, (\d+)% of its variation", given.notes[0])[1])
    assert 70 < share < 100
    assert not synth.notes
    new = given.sample(200, rng=0)
    free, source = drawn(synth, 2000)
    without = free[source == 7]  # drawn around the same image, without a condition
    gap, free_gap = (np.abs(x.astype(float) - images[7]).mean((0, 1)) for x in (new, without))
    assert gap[:5].mean() < 0.7 * free_gap[:5].mean()
    assert gap[5:].mean() > 0.3 * free_gap[5:].mean()


def test_the_note_on_a_rectangle_is_kept_at_a_wanted_novelty():
    given = conditioned(fit(blobs(), novelty=0.2), "1:12,1:5=8")
    assert sum("the conditioned rectangle is met in 9 of 19 directions" in note for note in given.notes) == 1


def test_a_pixel_within_a_rectangle_has_its_own_level():
    new = conditioned(hopfield(blobs()), "1:12,1:5=8", "2,2=99").sample(50, rng=0)
    assert (new[:, 1, 1] == 99).all()


def test_pixel_and_small_rectangle_are_both_exact():
    images = blobs()
    new = conditioned(hopfield(images), "4:5,5:6=8", "9,9=150").sample(50, rng=0)
    assert (new[:, 8, 8] == 150).all()
    assert (new[:, 3:5, 4:6] == images[7, 3:5, 4:6]).all()


def test_rectangles_come_from_ids_images_and_arrays_of_their_own_shape():
    codec, images = codec_of(blobs()), blobs()
    place = ((3, 6), (4, 7))
    expected = codec.condition({place: "8"}).observation
    for value in (images[7], images[7, 3:6, 4:7], images[7].astype(float)):
        found = codec.condition({place: value}).observation
        np.testing.assert_array_equal(found.rectangles, expected.rectangles)
        np.testing.assert_array_equal(found.levels, expected.levels)
    assert expected.rectangles.sum() == 9
    assert not expected.pixels.any()
    np.testing.assert_allclose(expected.levels[3:6, 4:7] * 255, images[7, 3:6, 4:7])
    row = codec.condition({(0, (2, 5)): "8"}).observation
    np.testing.assert_array_equal(np.flatnonzero(row.rectangles), [2, 3, 4])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("13,1=5", "row 13 must lie within 1 to 12"),
        ("0,1=5", "row 0 must lie"),
        ("1,11=5", "column 11 must lie within 1 to 10"),
        ("5:3,1:2=a/1.png", "row 5:3 must lie"),
        ("1:2,1:11=a/1.png", "column 1:11 must lie"),
        ("1,1=256", "0 to 255"),
        ("1,1=-1", "0 to 255"),
        ("1,1=nan", "0 to 255"),
        ("1,1=1/2/3", "takes one value"),
        ("1,1=bright", "takes one value"),
        ("1,1", "not understood"),
        ("age=4", "not understood"),
        ("1:2,1:2=a/11.pn", "did you mean a/11.png"),
        ("1:2,1:2=zzzzzzzzzzz", "no stored image has the id"),
    ],
)
@pytest.mark.parametrize("generator", ["patches", "hopfield"])
def test_impossible_texts_are_named(text, words, generator):
    synth = fit(blobs(), ids=[f"a/{i}.png" for i in range(20)], generator=generator)
    with pytest.raises(InputError) as caught:
        conditioned(synth, text)
    assert words in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ((12, 0), 5, "row 12 must lie within 0 to 11"),
        ((0, -11), 5, "column -11 must lie within 0 to 9"),
        (((5, 3), (0, 2)), "1", r"row \(5, 3\) must lie"),
        (((0, 2), (0, 11)), "1", r"column \(0, 11\) must lie"),
        ((0, 0), 256, "0 to 255"),
        ((0, 0), np.nan, "0 to 255"),
        ((0, 0), (1, 2, 3), "takes one value"),
        ((0, 0), "bright", "takes one value"),
        ("age", 4, r"must be \(row, column\)"),
        ((0, 1.5), 4, "a column must be a number or a pair"),
        (((0, 2), (0, 2)), "nowhere", "no stored image has the id 'nowhere'"),
        (((0, 2), (0, 2)), np.zeros((3, 3)), "or the id of a stored image"),
        (((0, 2), (0, 2)), np.full((2, 2), 300), "0 to 255"),
    ],
)
def test_impossible_conditions_are_named(key, value, words):
    with pytest.raises(InputError, match=words) as caught:
        fit(blobs()).condition({key: value})
    assert "\n" not in str(caught.value)


def test_a_level_that_no_stored_image_varies_around_is_named():
    images = blobs()
    images[:, 1, 2] = 200
    synth = hopfield(images)
    with pytest.raises(InputError, match="row 1 and column 2, counted from 0, cannot be 100: it is 200 in every"):
        synth.condition({(1, 2): 100}).sample(1, rng=0)


def test_an_unknown_image_is_answered_with_three_similar_names():
    codec = codec_of(blobs(5), ids=["face-1", "face-2", "face-3", "face-4", "dog"])
    with pytest.raises(InputError, match=r"did you mean face-\d or face-\d or face-\d\?$"):
        codec.condition({((0, 2), (0, 2)): "face-9"})
    with pytest.raises(InputError, match=r"there are face-1, face-2, face-3 and others\.$"):
        codec.condition({((0, 2), (0, 2)): "zzz"})


def test_a_image_file_is_read_in_the_colours_of_the_stored_ones(tmp_path):
    save(in_colour(1)[0], tmp_path / "a.png")
    for images in (in_colour(), in_colour()[..., 0]):
        (wanted,) = KIND.parse_condition(codec_of(images), [f"1:2,1:2={tmp_path / 'a.png'}"]).values()
        assert wanted.shape == images.shape[1:]


def test_conditions_that_contradict_each_other_or_every_image():
    images = blobs()
    images[:, 0, 0] = 17
    synth = hopfield(images)
    with pytest.raises(InputError, match="contradicts"):
        conditioned(synth, "2,2=5", "2,2=6")
    with pytest.raises(InputError, match="contradicts"):
        conditioned(synth, "2:4,2:4=1", "2:4,2:4=2")
    with pytest.raises(InputError, match="contradicts"):
        synth.condition({((1, 4), (1, 4)): "1", ((2, 5), (2, 5)): "2"})
    with pytest.raises(InputError, match="row 0 and column 0, counted from 0, cannot be 200: it is 17 in every stored"):
        synth.condition({(0, 0): 200}).sample(1, rng=0)
    assert (synth.condition({(0, 0): 17}).sample(2, rng=0)[:, 0, 0] == 17).all()
    everything = {(r, c): ((r + 1) * (c + 1) * 37) % 256 for r in range(1, 12) for c in range(10)}
    with pytest.raises(InputError, match=r"vary in 19 directions\. Condition on fewer"):
        synth.condition(everything).sample(1, rng=0)
    with pytest.raises(InputError, match="takes a value such as 128, or three"):
        conditioned(hopfield(in_colour()), "1,1=1/2")
    with pytest.raises(InputError, match="takes a value such as 128, or three"):
        hopfield(in_colour()).condition({(0, 0): (1, 2)})
    too_many = hopfield(blobs(4, 40, 40), variance=None, whiten=False)
    with pytest.raises(InputError, match="at most 1,000 can be met without principal components"):
        conditioned(too_many, "1:40,1:40=1").sample(1, rng=0)


# The generator "patches"


@pytest.mark.parametrize("images", [blobs(20), in_colour(20, 12, 10)], ids=["gray", "rgb"])
def test_patches_have_conditioned_pixels(images):
    synth = fit(images, generator="patches", ids=[f"b{i}" for i in range(20)])
    synth = conditioned(synth, "2:9,1:4=b7", "3,2=99", "12,10=255")
    items = synth.sample(8, rng=0)
    expected = images[7, 1:9, :4].copy()
    expected[1, 1] = 99
    assert (items[:, 1:9, :4] == expected).all()
    assert (items[:, 11, 9] == 255).all()
    assert np.ptp(items[:, 5, 7].astype(int)) > 0
    assert synth.notes == ("new images are not warped, so that conditioned pixels stay in place.",)


def test_the_description_names_the_rule_of_the_radius():
    few, many = fit(spots(2), warp=0).describe(), fit(blobs(40), warp=0).describe()
    assert few.summary.startswith("local attention heads, window radius 2 (the stored images are too few")
    assert "matched-distance rule: new images are as far from the stored ones" in many.summary
    given = fit(spots(), radius=2.5).describe()
    assert given.summary == "local attention heads, window radius 2.5 (as given)"
    assert (given.name, given.resolved) == ("patches", {"radius": 2.5})
    assert many.temperature is None


def test_sampling_images_by_default_runs_no_code_of_other_generators(monkeypatch):
    from stochattn import StochasticAttention
    from stochattn.core import temperature
    from stochattn.core.mixture import Mixture
    from stochattn.kinds.hopfield import Coordinates, HopfieldGenerator

    calls = []

    def count(owner, name):
        original = owner.__dict__[name]
        plain = original.__func__ if isinstance(original, classmethod) else original

        def counted(*args, **kwargs):
            calls.append(name)
            return plain(*args, **kwargs)

        monkeypatch.setattr(owner, name, classmethod(counted) if plain is not original else counted)

    count(HopfieldGenerator, "fit")
    count(Coordinates, "fit")
    count(StochasticAttention, "__init__")
    count(temperature, "choose")
    count(temperature, "natural")
    count(Mixture, "of")
    images = np.concatenate([spots(), spots(left=False)])
    assert sa.fit(images, kind="image").sample(3, rng=0).shape == (3, 12, 12)
    assert not calls
    fit(images, beta=30.0).sample(3, rng=0)
    assert {"fit", "__init__", "of"} <= set(calls)  # the counters work


def test_new_images_use_only_the_subset():
    images = np.concatenate([spots(), spots(left=False)])
    synth = fit(images, labels=["left"] * 12 + ["right"] * 12, warp=0).subset("right").weight(2, "right")
    items, source = drawn(synth, 16)
    assert items[:, :, :4].max() < 10 < 150 < items[:, :, 6:].max((1, 2)).min()
    assert (source >= 12).all()


def test_weights_change_shares_of_classes():
    """Right spots have weight four: share 0.8, or 0.5 without weights. 160 draws have a standard error of 0.03; the
    annealing, which mixes classes at high noise, favours the more frequent class."""
    synth = fit(np.concatenate([spots(), spots(left=False)]), warp=0)
    weighted = synth.weight(4, np.arange(12, 24))
    shares = [(drawn(one, 160)[1] >= 12).mean() for one in (synth, weighted)]
    assert shares[0] == pytest.approx(0.5, abs=0.15)
    assert shares[1] > 0.7


@pytest.mark.parametrize(
    ("n", "labels", "dropped", "expected"),
    [
        (30, None, 0, 12 / 28),
        (31, None, 0, 0.0),
        (31, None, 1, 12 / 28),
        (60, ["a", "b"] * 30, 0, 12 / 28),
        (60, ["a"] * 31 + ["b"] * 29, 0, 0.0),
    ],
)
def test_few_images_are_warped(n, labels, dropped, expected):
    synth = fit(spots(n), labels=labels, radius=2).subset(np.arange(n) >= dropped)
    assert synth.generator.warp == pytest.approx(expected)
    assert any("warped by 0.43 px; warp=0 switches that off" in note for note in synth.notes) == (expected > 0)
    assert fit(spots(n), labels=labels, warp=0.7).generator.warp == 0.7


def test_large_images_are_warped_by_one_pixel_and_parts_of_the_data_as_the_whole():
    assert fit(spots(4, 40), generator="patches").generator.warp == 1
    many = fit(spots(40), generator="patches")
    assert many.refit(np.arange(20)).generator.warp == 0
    assert many.refit(np.arange(20)).refit(np.arange(10)).generator.warp == 0
    classes = fit(spots(40), generator="patches", labels=["a", "b"] * 20)
    assert classes.refit(np.arange(40)).generator.warp == pytest.approx(12 / 28)
    assert fit(spots(40), warp=0.7).refit(np.arange(20)).generator.warp == 0.7


def test_warps_move_pixels_and_depend_on_seed_and_number_only():
    straight, bent = (fit(spots(), warp=warp) for warp in (0, 1))
    (plain, _), (items, _) = drawn(straight, 20), drawn(bent, 20)
    assert not straight.notes
    assert np.abs(items.astype(int) - plain).max((1, 2)).min() > 10
    assert np.array_equal(items[:3], drawn(bent, 3)[0])
    assert not np.array_equal(items, drawn(bent, 20, seed=1)[0])


def test_images_within_the_smallest_window_are_drawn_by_hopfield():
    synth = fit(in_colour(6, 3, 2))
    note = "images of 2x3 are too small for the generator 'deformations': 'hopfield' is used instead."
    for one in (synth, synth.condition({(0, 0): 77})):
        assert note in one.notes
        assert one.describe().name == "hopfield"
    np.testing.assert_array_equal(synth.sample(4, rng=0), hopfield(in_colour(6, 3, 2)).sample(4, rng=0))
    with pytest.raises(InputError, match=r"warp=1 is for the generator 'patches', and \w+ of 2x3 are too small"):
        fit(in_colour(6, 3, 2), warp=1).sample(1, rng=0)
    assert fit(in_colour(6, 3, 2), warp=0).sample(1, rng=0).shape == (1, 3, 2, 3)


@pytest.mark.parametrize(("height", "width", "name"), [(4, 2, "patches"), (2, 4, "patches"), (3, 3, "hopfield")])
def test_patches_need_a_side_longer_than_the_smallest_window(height, width, name):
    images = np.random.default_rng(0).integers(0, 256, (6, height, width), dtype=np.uint8)
    assert fit(images, generator="patches").describe().name == name


def awkward(name):
    images = spots(6)
    images[:, 8:] = 17 if name == "constant" else images[:, 8:]
    return {
        "small": spots(6, 4),
        "two": spots(2),
        "constant": images,
        "colour": in_colour(5, 12, 12),
        "wide": np.tile(spots(6, 8), (1, 1, 25)),
        "tiny": in_colour(6, 3, 2),
        "one": spots(1),
        "alike": spots(1)[[0] * 4],
        "duplicates": spots(6).repeat(2, 0),
        "nan": np.where(np.arange(6)[:, None, None] == 2, np.nan, spots(6)),
    }[name]


@pytest.mark.parametrize("name", ["small", "two", "constant", "colour", "wide", "tiny", "duplicates"])
def test_awkward_images_give_new_ones(tmp_path, name):
    images = awkward(name)
    np.save(tmp_path / "in.npy", images)
    synth = fit(tmp_path / "in.npy", size=f"{images.shape[2]}x{images.shape[1]}", warp=0)
    new = synth.sample(3, rng=0)
    assert new.shape == (3, *images.shape[1:])
    assert any("too small for the generator" in note for note in synth.notes) == (name == "tiny")
    if name == "constant":
        assert (new[:, 8:] == 17).all()
    if name != "tiny":
        assert (new >= images.min(0) - 1.0).all()
        assert (new <= images.max(0) + 1.0).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [("one", "holds one image"), ("alike", "are equal"), ("nan", "image 3 has NaN")],
)
def test_impossible_images_are_named_in_one_line(tmp_path, name, words):
    np.save(tmp_path / "in.npy", awkward(name))
    with pytest.raises(InputError, match=words) as caught:
        fit(tmp_path / "in.npy")
    assert "in.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rectangle_may_come_from_a_image_that_is_not_stored(tmp_path):
    synth = fit(spots())
    other = spots(1, seed=9)[0]
    Image.fromarray(other).save(tmp_path / "other.png")
    new = conditioned(synth, f"1:6,1:12={tmp_path / 'other.png'}").sample(8, rng=0)
    assert (new[:, :6] == other[:6]).all()
    with pytest.raises(InputError, match=r"no stored image has the id 'nowhere\.png', and no file has that name"):
        conditioned(synth, "1:6,1:12=nowhere.png")


# Writing


def batches(codec, images, size=3):
    near = np.arange(len(images)) % codec.K
    for i in range(0, len(images), size):
        part = slice(i, i + size)
        yield Batch(i, images[part], near[part], np.full(len(images[part]), 0.25), {}, near[part])


def write(codec, place, format, images):
    writer = KIND.writer(codec, place, FORMATS[format], SETTINGS)
    for batch in batches(codec, images):
        writer.write(batch)
    writer.close()
    return place


def test_folder_of_pngs_with_a_table(tmp_path):
    codec = codec_of(blobs(), ids=[f"b,{i}" for i in range(20)])
    new = blobs(7, seed=3)
    (tmp_path / "new").mkdir()
    write(codec, tmp_path / "new", "png", new)
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == [*(f"new-{i:06d}.png" for i in range(1, 8)), "samples.csv"]
    lines = (tmp_path / "new" / "samples.csv").read_text().split("\n")
    assert lines[0] == "number,nearest,novelty"
    assert lines[7] == '7,"b,6",0.250000'
    assert len(lines) == 9
    np.testing.assert_array_equal(KIND.read_new(codec, tmp_path / "new"), new)
    with Image.open(tmp_path / "new" / "new-000001.png") as image:
        assert json.loads(image.text["stochattn"])["seed"] == 1
    # Such a folder can be read as stored images.
    assert read(tmp_path / "new").K == 7


@pytest.mark.parametrize("format", ["npz", "npy"])
@pytest.mark.parametrize("images", [blobs(), in_colour()], ids=["gray", "rgb"])
def test_array_files_are_read_back(tmp_path, format, images):
    codec = codec_of(images)
    stream = write(codec, io.BytesIO(), format, images[:7])
    path = tmp_path / f"new.{format}"
    path.write_bytes(stream.getvalue())
    np.testing.assert_array_equal(KIND.read_new(codec, path), images[:7])
    if format == "npz":
        with np.load(path, allow_pickle=False) as file:
            assert file["nearest"].tolist() == ["1", "2", "3", "4", "5", "6", "7"]
            assert file["novelty"].tolist() == [0.25] * 7
            assert json.loads(str(file["settings"]))["beta"] == 8.0


@pytest.mark.parametrize("format", ["npz", "npy", "sheet"])
def test_same_draws_give_the_same_bytes(format, monkeypatch):
    codec = codec_of(in_colour())
    first = write(codec, io.BytesIO(), format, in_colour()).getvalue()
    monkeypatch.setattr("time.time", lambda: 1.7e9)
    assert write(codec, io.BytesIO(), format, in_colour()).getvalue() == first


def test_contact_sheet_places_images_in_rows():
    images = np.arange(1, 4, dtype=np.uint8)[:, None, None] * np.ones((1, 40, 30), np.uint8)
    sheet = contact_sheet(images)
    assert sheet.shape == (2 + 2 * 42, 2 + 2 * 32)
    assert [sheet[2, 2], sheet[2, 34], sheet[44, 2], sheet[44, 34]] == [1, 2, 3, 255]
    assert (sheet[41, 31], sheet[42, 31], sheet[41, 32]) == (1, 255, 255)


def test_classes_are_written(tmp_path):
    codec = codec_of(blobs(), labels=["a", "=b"] * 10, ids=[f"={i}" for i in range(20)])
    (tmp_path / "new").mkdir()
    write(codec, tmp_path / "new", "png", blobs(3))
    lines = (tmp_path / "new" / "samples.csv").read_text().splitlines()  # an apostrophe before what would be a formula
    assert lines[:3] == ["number,class,nearest,novelty", "1,a,'=0,0.250000", "2,'=b,'=1,0.250000"]
    (tmp_path / "new.npz").write_bytes(write(codec, io.BytesIO(), "npz", blobs(3)).getvalue())
    assert np.load(tmp_path / "new.npz")["labels"].tolist() == ["a", "=b", "a"]


def test_a_sheet_shows_at_most_a_hundred():
    assert FORMATS["sheet"].max_items == 100
    codec = codec_of(blobs(width=70))
    many = np.tile(blobs(width=70), (6, 1, 1))
    with Image.open(io.BytesIO(write(codec, io.BytesIO(), "sheet", many).getvalue())) as sheet:
        assert sheet.size == (2 + 10 * 72, 2 + 10 * 14)


def test_new_images_of_another_shape_are_rejected(tmp_path):
    codec = codec_of(blobs())
    np.save(tmp_path / "a.npy", blobs(3, 10, 12))
    with pytest.raises(InputError, match=r"a\.npy is 12x10 pixels, and the stored images are 10x12"):
        KIND.read_new(codec, tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"p00\.png is 9x9 pixels.*resize it to 10x12"):
        KIND.read_new(codec, folder_of(blobs(2, 9, 9), tmp_path / "b"))
    np.save(tmp_path / "c.npy", in_colour(3, 12, 10))
    with pytest.raises(InputError, match="the stored ones are gray"):
        KIND.read_new(codec, tmp_path / "c.npy")
    with pytest.raises(InputError, match="does not exist"):
        KIND.read_new(codec, tmp_path / "none.npy")
    (tmp_path / "sheet.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"sheet\.png is one \w+, such as a contact sheet, .* a folder or an \.npz"):
        KIND.read_new(codec, tmp_path / "sheet.png")


def test_one_new_image_and_dark_ones_are_read_as_they_are(tmp_path):
    codec = codec_of(blobs())
    nearly_black = np.zeros((1, 12, 10), np.uint8)
    nearly_black[0, 3, 3] = 1
    np.save(tmp_path / "a.npy", nearly_black)
    np.testing.assert_array_equal(KIND.read_new(codec, tmp_path / "a.npy"), nearly_black)


# Comparison


def value(comparison, name):
    return next(m.value for m in comparison.measures if m.name == name)


def test_stored_images_compared_with_themselves_are_ideal():
    codec = codec_of(blobs(), labels=["a", "b"] * 10)
    comparison = KIND.measures.compare(codec, blobs())
    assert value(comparison, "exact copies") == 1
    for measure in comparison.measures:
        if measure.name != "exact copies":
            assert measure.value == pytest.approx(measure.ideal, abs=1e-12)
    assert [p.distance for p in comparison.parts] == [0] * 9


def test_measures_agree_with_values_by_hand():
    stored = np.array([[[0, 100], [0, 100]], [[100, 0], [100, 0]], [[0, 0], [0, 100]]], dtype=np.uint8)
    new = np.full((4, 2, 2), 50, dtype=np.uint8)
    new[3] = stored[0]
    comparison = KIND.measures.compare(codec_of(stored), new)
    assert value(comparison, "mean level") == pytest.approx(50 - 500 / 12)
    assert value(comparison, "exact copies") == 0.25
    # neighbours differ by 100 in 5 of the stored images' 12 pairs, 0 0 | 100 100, 0 0 | 100 100, 0 100 | 0 100
    down, across = np.mean([0, 0, 0, 0, 0, 100]), np.mean([100, 100, 100, 100, 0, 100])
    assert value(comparison, "sharpness") == pytest.approx((0 + 200 / 8) / (down + across))
    assert [p.name for p in comparison.parts] == ["top left", "top right", "bottom left", "bottom right"]
    assert comparison.parts[0].stored == "33 ± 47"
    assert comparison.parts[0].new == "38 ± 22"
    # levels 0, 100, 0 against 50, 50, 50, 0: distribution functions are 2/3 and 1/4 at 0, 2/3 and 1 at 50
    assert comparison.parts[0].distance == pytest.approx(2 / 3 - 1 / 4)


def test_classes_are_counted_by_the_nearest_stored_image():
    images = blobs()
    codec = codec_of(images, labels=["a"] * 5 + ["b"] * 15)
    comparison = KIND.measures.compare(codec, images[[0, 1, 5, 6]])
    assert value(comparison, "class a") == 0.5
    assert next(m.ideal for m in comparison.measures if m.name == "class a") == 0.25
    assert value(comparison, "class shares") == 0.25


def test_regions_have_names_for_any_shape():
    names = [p.name for p in KIND.measures.compare(codec_of(blobs()), blobs()).parts]
    assert names == [
        *("top left", "top", "top right", "left", "center", "right"),
        *("bottom left", "bottom", "bottom right"),
    ]
    thin = np.random.default_rng(0).integers(0, 255, (5, 1, 9), dtype=np.uint8)
    assert [p.name for p in KIND.measures.compare(codec_of(thin), thin).parts] == ["left", "center", "right"]
    names = [measure.name for measure in KIND.measures.compare(codec_of(blobs()), blobs(1)).measures]
    assert "Fréchet distance of pixels" not in names  # one image has no spread


def test_many_images_are_compared_by_an_evenly_spaced_subset(monkeypatch):
    monkeypatch.setattr("stochattn.kinds.images.writing.MAX_ENTRIES", 4 * 120)
    found = KIND.measures.compare(codec_of(blobs()), blobs())
    assert len(found.parts[0].values().new) == 4
    assert value(found, "exact copies") == 1  # among all


def test_single_pixels_have_no_sharpness():
    pixels = np.arange(5, dtype=np.uint8).reshape(5, 1, 1) * 50
    assert "sharpness" not in [measure.name for measure in KIND.measures.compare(codec_of(pixels), pixels).measures]


def test_blur_streaks_and_noise_change_the_texture():
    """The measure of held-out images stays below 0.1; blur leaves levels and most of the sharpness as they are."""
    rng = np.random.default_rng(0)
    scenes = gaussian_filter(rng.standard_normal((60, 32, 32)), (0, 1, 1))
    scenes = 255 * (scenes - scenes.min()) / np.ptp(scenes)
    stored, held_out = scenes[:30].astype(np.uint8), scenes[30:]
    streaked = held_out.copy()
    streaked[:, :6], streaked[:, -6:] = held_out[:, 6:7], held_out[:, -7:-6]
    faults = {
        "blur": gaussian_filter(held_out, (0, 0.7, 0.7)),
        "streaks": streaked,
        "noise": np.clip(held_out + rng.normal(0, 10, held_out.shape), 0, 255),
        "double exposures": (held_out + held_out[::-1]) / 2 + rng.normal(0, 10, held_out.shape),
    }
    measure = KIND.measures.key.name
    assert value(KIND.measures.compare(codec_of(stored), held_out.astype(np.uint8)), measure) < 0.1
    for name, faulty in faults.items():
        found = value(KIND.measures.compare(codec_of(stored), np.clip(faulty, 0, 255).astype(np.uint8)), measure)
        assert found > 0.2, (name, found)


def test_blank_and_tiny_images_have_no_texture():
    names = [
        measure.name for measure in KIND.measures.compare(codec_of(blobs()[:, :3, :3]), blobs()[:, :3, :3]).measures
    ]
    assert KIND.measures.key.name not in names


def test_the_key_measure_is_one_of_the_comparison():
    comparison = KIND.measures.compare(codec_of(blobs()), blobs())
    assert KIND.measures.key.name in [measure.name for measure in comparison.measures]


def test_the_nearest_stored_image_is_nearest_by_its_pixels():
    """Pixels that vary by 60 levels beside some that vary by 2: scaled rows have other neighbours."""
    rng = np.random.default_rng(0)
    images = np.clip(128 + np.geomspace(60, 2, 16).reshape(4, 4) * rng.standard_normal((230, 4, 4)), 0, 255)
    stored, new = np.split(images.astype(np.uint8), [200])
    synth = hopfield(stored)
    by_pixels = np.square(new[:, None].astype(float) - stored[None]).sum((2, 3)).argmin(1)
    by_rows = np.square(synth.rows(new)[:, None] - synth.stored_rows[None]).sum(2).argmin(1)
    assert KIND.measures.annotate(synth.codec, new, 30)[0].tolist() == by_pixels.tolist() != by_rows.tolist()


def test_the_gallery_shows_pairs_of_images_and_escapes_names():
    codec = codec_of(blobs(3), ids=["<b>", "two", "three"], labels=["x", "y", "z"])
    shown = GalleryItems(blobs(2, seed=1), np.arange(2), np.array([0, 2]), np.array([0.25, 0.5]), {})
    html = KIND.display.gallery(codec, shown)
    assert html.count("<img") == 4
    assert "&lt;b&gt;" in html
    assert "<b>&lt;" not in html
    assert "new image 2" in html
    assert "0.25" in html
    assert html.startswith('<p class="note">New on the left')
    assert html.count('<div class="item"><figure><div class="two"><img') == 2


# Real images


@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the face images under STOCHATTN_DATA")
def test_four_hundred_faces_are_decoded_exactly_and_stay_sharp():
    codec = read(Path(os.environ["STOCHATTN_DATA"]) / "olivetti.npz")
    faces = hopfield(codec.stored)
    coordinates = faces.generator.embedding.coordinates
    assert (codec.K, codec.shape, coordinates.d) == (400, (64, 64), 399)
    arrays = faces.generator.embedding.arrays(coordinates.stored * coordinates.factors(), None, None)
    np.testing.assert_array_equal(codec.decode(arrays), codec.stored)
    small = hopfield(codec.stored[:100], novelty=0.3)
    sharp = KIND.measures.compare(small.codec, small.sample(300, rng=0))
    assert value(sharp, "sharpness") == pytest.approx(1.12, abs=0.05)
    white = hopfield(codec.stored[:100], novelty=0.3, variance=None, whiten=False)
    assert value(KIND.measures.compare(white.codec, white.sample(300, rng=0)), "sharpness") > 3


def test_a_line_end_in_a_name_begins_no_row_of_the_table(tmp_path):
    codec = codec_of(blobs(), ids=[f"\r=cmd{i}" for i in range(20)])
    (tmp_path / "new").mkdir()
    write(codec, tmp_path / "new", "png", blobs(3))
    with (tmp_path / "new" / "samples.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:2] for row in rows[:3]] == [["number", "nearest"], ["1", "'\r=cmd0"], ["2", "'\r=cmd1"]]
