"""Pictures: what is read, that stored ones come back, that fixed pixels are met, and what is written."""

import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import stochattn
from stochattn.cli import app
from stochattn.core.mixture import Mixture
from stochattn.data.legacy import Batch, InputError, Settings, read_state
from stochattn.data.images import ImageCodec
from stochattn.data.images.writers import contact_sheet

SETTINGS = Settings(beta=8.0, seed=1, rule="given", sampler="exact", source="pictures", version="0")
PAPER = {"centre": False, "variance": None, "whiten": False, "norm": "paper"}


def blobs(n=20, height=12, width=10, seed=0):
    """Bright blobs at random places on dark ground: (n, height, width) uint8."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    y, x = rng.uniform(2, height - 2, n), rng.uniform(2, width - 2, n)
    far = (rows - y[:, None, None]) ** 2 + (columns - x[:, None, None]) ** 2
    return (200 * np.exp(-far / 8) + rng.integers(5, 40, (n, height, width))).astype(np.uint8)


def in_colour(n=12, height=8, width=6, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def save(image, path: Path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)


def folder_of(images, path: Path, ending="png"):
    for i, image in enumerate(images):
        save(image, path / f"p{i:02d}.{ending}")
    return path


def draws(codec, n=50, beta=None, fixes=(), seed=0):
    model = stochattn.StochasticAttention(
        codec.bank, **({} if beta is None else {"beta": beta}), equal_weights=codec.equal_weights
    )
    mixture = Mixture.of(model.bank, model.beta, codec.factors(model.beta))
    if fixes:
        mixture = mixture.given(*codec.observe(fixes))
    rng = np.random.default_rng(seed)
    z, k = mixture.sample(n, rng)
    return codec.items(z, k, rng), k


# Rows and back


@pytest.mark.parametrize("options", [{}, {"whiten": False}, {"whiten": False, "variance": None}, {"norm": "whole"}])
@pytest.mark.parametrize("images", [blobs(), in_colour()], ids=["grey", "rgb"])
def test_stored_pictures_come_back_exactly(images, options):
    codec = ImageCodec.fit(images, **options)
    np.testing.assert_array_equal(codec.decode(codec.encode(images)), images)
    assert codec.decode(codec.bank.patterns).dtype == np.uint8
    assert codec.loss() == (1.0, 1.0, codec.coordinates.variance)


def test_features_are_levels_over_255():
    images = np.array([[[0, 51], [102, 255]], [[255, 0], [0, 0]], [[7, 7], [9, 1]]], dtype=np.uint8)
    expected = np.array([[0, 0.2, 0.4, 1], [1, 0, 0, 0], [7 / 255, 7 / 255, 9 / 255, 1 / 255]])
    np.testing.assert_allclose(ImageCodec.fit(images).features(images), expected)


def test_cutting_components_is_measured_as_loss():
    loss = ImageCodec.fit(blobs(), variance=0.8).loss()
    assert loss.items < 1
    assert 0.8 <= loss.variance < 1


def test_published_setting_is_pixels_of_unit_norm():
    images = blobs()
    codec = ImageCodec.fit(images, **PAPER)
    flat = images.reshape(20, -1).astype(float)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(codec.bank.patterns, unit)
    np.testing.assert_array_equal(codec.decode(unit), np.rint(unit * 255).reshape(images.shape))
    assert "dark" in codec.notes[-1]


def test_noise_follows_the_stored_pictures_by_default():
    # A pixel that is the same in every stored picture has no noise, and smooth pictures stay smooth.
    images = blobs()
    images[:, 0, 0] = 17
    codec = ImageCodec.fit(images)
    new, _ = draws(codec)
    assert (new[:, 0, 0] == 17).all()
    white, _ = draws(ImageCodec.fit(images, variance=None, whiten=False))
    assert np.ptp(white[:, 0, 0]) > 0


def test_defaults_are_those_that_keep_everything_and_scale_the_noise(tmp_path):
    expected = (True, 1.0, True, "restored", None)
    assert ImageCodec.fit(blobs()).options == expected
    assert ImageCodec.read(folder_of(blobs(3), tmp_path)).options == expected


def test_decoding_clips_and_rounds():
    codec = ImageCodec.fit(np.array([[[0, 0]], [[250, 4]], [[10, 100]]], dtype=np.uint8))
    far = np.array([[1e3, 1e3], [-1e3, 1e3], [0.0, 0.0]])
    levels = codec.coordinates.features(far) * 255
    expected = np.array([min(max(round(v), 0), 255) for v in levels.ravel()]).reshape(3, 1, 2)
    np.testing.assert_array_equal(codec.items(far, np.zeros(3, int), np.random.default_rng(0)), expected)
    assert {0, 255} <= set(expected.ravel().tolist())


def test_decoding_by_blocks_changes_nothing(monkeypatch):
    codec = ImageCodec.fit(blobs())
    z = np.random.default_rng(0).standard_normal((7, codec.coordinates.d))
    whole = codec.items(z, np.zeros(7, int), np.random.default_rng(0))
    monkeypatch.setattr("stochattn.data.images.codec.BLOCK_ENTRIES", 250)
    np.testing.assert_array_equal(codec.items(z, np.zeros(7, int), np.random.default_rng(0)), whole)


def test_same_take_refit():
    images = blobs()
    codec = ImageCodec.fit(images, variance=0.9, whiten=False)
    changed = images.copy()
    changed[3, 0, 1] += 1
    same = codec.same(images, changed)
    assert same.shape == (20, 120)
    assert np.argwhere(~same).tolist() == [[3, 1]]
    np.testing.assert_array_equal(codec.take(images, [4, 2]), images[[4, 2]])
    half = codec.refit(images[:10])
    assert half.options == codec.options
    assert (half.K, half.shape) == (10, (12, 10))


def test_save_and_load_give_the_same_codec(tmp_path):
    codec = ImageCodec.fit(blobs(), ids=[f"b{i}" for i in range(20)], labels=["x", "y"] * 10, **PAPER)
    codec.save(tmp_path / "codec.npz")
    again = ImageCodec.from_state(*read_state(tmp_path / "codec.npz"))
    assert (again.ids, again.labels, again.notes, again.options) == (
        codec.ids,
        codec.labels,
        codec.notes,
        codec.options,
    )
    np.testing.assert_array_equal(again.bank.patterns, codec.bank.patterns)


# Folders


def test_folder_with_subfolders_gives_ids_and_labels(tmp_path):
    images = blobs(4)
    for name, image in zip(("b/2.png", "a/1.png", "a/x/3.BMP", "b/0.tif"), images, strict=True):
        save(image, tmp_path / name)
    save(images[0], tmp_path / ".hidden.png")
    save(images[0], tmp_path / ".cache" / "1.png")
    (tmp_path / "readme.txt").write_text("about")
    codec = ImageCodec.read(tmp_path)
    assert codec.ids == ("a/1.png", "a/x/3.BMP", "b/0.tif", "b/2.png")
    assert codec.labels == ("a", "a", "b", "b")
    np.testing.assert_array_equal(codec.stored, images[[1, 2, 3, 0]])
    assert codec.notes == ("1 files are no pictures and were skipped",)


def test_folder_without_subfolders_has_no_labels(tmp_path):
    codec = ImageCodec.read(folder_of(blobs(3), tmp_path))
    assert codec.labels is None
    assert codec.stored.shape == (3, 12, 10)


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "gif"])
def test_lossless_formats_are_read_exactly(tmp_path, ending):
    np.testing.assert_array_equal(ImageCodec.read(folder_of(blobs(3), tmp_path, ending)).stored, blobs(3))


def test_grey_jpeg_saved_in_colour_stays_grey(tmp_path):
    rng = np.random.default_rng(0)
    for i, image in enumerate(blobs(3, 16, 16)):
        noisy = np.repeat(image[..., None], 3, 2).astype(int) + rng.integers(-3, 4, (16, 16, 3))
        save(np.clip(noisy, 0, 255).astype(np.uint8), tmp_path / f"{i}.jpg", quality=95)
    codec = ImageCodec.read(tmp_path)
    assert codec.stored.shape == (3, 16, 16)
    assert "taken for noise" in codec.notes[0]
    assert ImageCodec.read(tmp_path, colour=True).stored.shape == (3, 16, 16, 3)


def test_mixed_sizes_and_modes_become_one_with_a_note(tmp_path):
    for i, image in enumerate(blobs(3, 16, 16)):
        save(image, tmp_path / f"grey{i}.png")
    red = np.full((32, 24, 3), (250, 10, 10), dtype=np.uint8)
    save(red, tmp_path / "red.png")
    Image.fromarray(red).convert("P").save(tmp_path / "palette.gif")
    Image.new("1", (16, 16), 1).save(tmp_path / "white.png")
    codec = ImageCodec.read(tmp_path)
    assert codec.stored.shape == (6, 16, 16, 3)
    np.testing.assert_array_equal(codec.stored[codec.ids.index("red.png")], red[:16, :16])
    assert (codec.stored[codec.ids.index("white.png")] == 255).all()
    assert codec.notes == (
        "2 of 6 pictures were brought to 16x16 pixels, cropped where the shape differs; --size chooses another",
        "2 of 6 pictures have colour, and all are kept as RGB; --no-colour makes them grey",
    )
    assert ImageCodec.read(tmp_path, colour=False).stored.shape == (6, 16, 16)


def test_large_pictures_are_shrunk_and_size_overrides(tmp_path):
    folder_of(blobs(2, 100, 256), tmp_path)
    assert ImageCodec.read(tmp_path).stored.shape == (2, 50, 128)
    assert "brought to 128x50" in ImageCodec.read(tmp_path).notes[0]
    assert ImageCodec.read(tmp_path, size="64x48").stored.shape == (2, 48, 64)
    assert ImageCodec.read(tmp_path, size="256x100").notes == ()


def test_transparent_parts_are_laid_on_white(tmp_path):
    layer = np.zeros((4, 4, 4), dtype=np.uint8)
    layer[:2] = (10, 10, 10, 255)
    save(layer, tmp_path / "a.png")
    save(blobs(1, 4, 4)[0], tmp_path / "b.png")
    codec = ImageCodec.read(tmp_path)
    assert codec.stored[0].tolist() == [[10] * 4] * 2 + [[255] * 4] * 2
    assert codec.notes == ("1 pictures have transparent parts, laid on white",)


def test_sixteen_bit_levels_are_scaled_not_clipped(tmp_path):
    save(np.full((4, 4), 257 * 100, dtype=np.uint16), tmp_path / "a.png")
    save(blobs(1, 4, 4)[0], tmp_path / "b.png")
    assert (ImageCodec.read(tmp_path).stored[0] == 100).all()


def test_cameras_orientation_is_respected(tmp_path):
    image = np.zeros((16, 8), dtype=np.uint8)
    image[:, 4:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    save(image, tmp_path / "a.jpg", exif=exif, quality=100)
    save(blobs(1, 8, 16)[0], tmp_path / "b.png")
    codec = ImageCodec.read(tmp_path)
    assert codec.stored.shape == (2, 8, 16)
    assert codec.stored[0, 1].max() < 30 < 220 < codec.stored[0, 6].min()


# Arrays


def write_npz(path: Path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz_with_labels(tmp_path):
    path = write_npz(tmp_path / "a.npz", images=blobs(4), target=np.array([0.0, 0.0, 1.0, 2.0]), other=np.eye(3))
    codec = ImageCodec.read(path)
    np.testing.assert_array_equal(codec.stored, blobs(4))
    assert codec.labels == ("0", "0", "1", "2")
    assert codec.ids == ("1", "2", "3", "4")


@pytest.mark.parametrize("name", ["images", "X", "data", "arr_0", "anything"])
def test_npz_names(tmp_path, name):
    assert ImageCodec.read(write_npz(tmp_path / "a.npz", **{name: blobs(4), "y": np.arange(4)})).K == 4


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
    np.testing.assert_array_equal(ImageCodec.read(tmp_path / "a.npy").stored, blobs(5))


def test_channel_first_colour_is_recognised():
    np.testing.assert_array_equal(ImageCodec.fit(np.moveaxis(in_colour(), 3, 1)).stored, in_colour())


def test_black_and_white_and_dark_levels_are_noted():
    binary = (blobs() > 100).astype(np.uint8)
    codec = ImageCodec.fit(binary)
    np.testing.assert_array_equal(codec.stored, binary * 255)
    assert "black and white" in codec.notes[0]
    sixteen = np.round(blobs() / blobs().max() * 16)
    assert ImageCodec.fit(sixteen).notes == (
        "the highest level is 16 of 255, so that pictures are dark; rescale them if that is not meant",
    )


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
        "text": b"this is no picture",
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
        ("empty", "holds no file"),
        ("other", "no picture among its 1 files"),
        ("one", "holds one picture"),
        ("truncated", "b.png cannot be read as a picture"),
        ("corrupt", "b.png cannot be read as a picture"),
        ("text", "b.png cannot be read as a picture"),
        ("zero", "b.png cannot be read as a picture (the file is empty)"),
        ("bomb", "b.png has more than"),
        ("large", "b.png has more than"),
    ],
)
def test_bad_folders_are_told_in_one_line(tmp_path, kind, words):
    with pytest.raises(InputError) as caught:
        ImageCodec.read(bad_folder(kind, tmp_path / "pictures"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


NAN = blobs(4).astype(float)
NAN[2, 3, 3] = np.nan


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": blobs(3), "b": blobs(4)}, "several arrays that could be pictures: a (3, 12, 10), b (4, 12, 10)"),
        ({"images": np.array([None, {}], dtype=object)}, "Python objects (images)"),
        ({"X": np.eye(4)}, "--as table"),
        ({"names": np.array(["a", "b"])}, "holds no pictures (names (2,))"),
        ({}, "no array"),
        ({"images": NAN}, "picture 3 holds NaN"),
        ({"images": blobs(4).astype(int) - 50}, "levels run from"),
        ({"images": blobs(4) * 1e6}, "levels run from"),
        ({"images": np.zeros((3, 0, 4))}, "holds no pixel"),
        ({"images": np.zeros((3, 5, 5, 2))}, "no axis of 1, 3 or 4 channels"),
        ({"images": in_colour(30, 20, 20)[0]}, "one colour picture"),
        ({"images": blobs(1)}, "holds one picture"),
        ({"images": np.zeros((3, 4, 4), np.uint8)}, "all alike"),
    ],
)
def test_bad_arrays_are_told_in_one_line(tmp_path, arrays, words):
    with pytest.raises(InputError) as caught:
        ImageCodec.read(write_npz(tmp_path / "a.npz", **arrays))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", b"garbage", "a.npy is no .npy file"),
        ("a.npz", b"PK\x03\x04garbage", "a.npz cannot be read"),
        ("a.npz", b"", "a.npz cannot be read"),
        ("a.png", b"x", "one picture"),
        ("a.mp4", b"x", "ends in '.mp4'"),
    ],
)
def test_bad_files_are_told_in_one_line(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        ImageCodec.read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_two_dimensional_and_object_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(5))
    with pytest.raises(InputError, match="--as table"):
        ImageCodec.read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        ImageCodec.read(tmp_path / "b.npy")
    with pytest.raises(InputError, match="does not exist"):
        ImageCodec.read(tmp_path / "none.npy")


@pytest.mark.parametrize("size", ["64", "0x5", "axb", "64x", "-3x4", "99999x3"])
def test_bad_sizes(tmp_path, size):
    with pytest.raises(InputError, match="such as 64x48"):
        ImageCodec.read(folder_of(blobs(2), tmp_path), size=size)


def test_bad_options_and_names():
    with pytest.raises(InputError, match="principal components"):
        ImageCodec.fit(blobs(), centre=False)
    with pytest.raises(InputError, match="ids must name each of the 20 pictures; got 3"):
        ImageCodec.fit(blobs(), ids=["a", "b", "c"])
    black = np.concatenate([blobs(), np.zeros((1, 12, 10), np.uint8)])
    with pytest.raises(InputError, match="picture 21 is all zeros"):
        ImageCodec.fit(black, **PAPER)


# Fixed pixels


def test_fixed_pixels_come_back_as_asked():
    new, _ = draws(ImageCodec.fit(blobs()), n=200, fixes=["3,4=120", "12,10=60"])
    assert (new[:, 2, 3] == 120).all()
    assert (new[:, 11, 9] == 60).all()
    assert np.ptp(new[:, 5, 5]) > 0


def test_fixed_colours_come_back_as_asked():
    new, _ = draws(ImageCodec.fit(in_colour()), fixes=["2,3=200/100/50", "1,1=77"])
    assert (new[:, 1, 2] == [200, 100, 50]).all()
    assert (new[:, 0, 0] == 77).all()


def test_fixed_pixel_moves_weight_as_bayes_has_it():
    # The weight of memory k given the pixel is proportional to its own density there, a normal one in closed form.
    codec, beta = ImageCodec.fit(blobs(), whiten=False), 60.0
    A, y = codec.observe(["6,5=150"])
    _, k = draws(codec, n=40_000, beta=beta, fixes=["6,5=150"])
    pixel = 5 * 10 + 4
    factor = codec.factors(beta)[:, 0]
    outward = codec.coordinates.outward[:, pixel]
    mean = codec.coordinates.mean[pixel] + factor * (codec.coordinates.stored @ outward)
    sd = factor / np.sqrt(beta) * np.linalg.norm(outward)
    density = np.exp(-(((150 / 255 - mean) / sd) ** 2) / 2) / sd
    expected = density / density.sum()
    found = np.bincount(k, minlength=20) / 40_000
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / 40_000)
    assert np.ptp(expected) > 0.02  # else nothing was tested
    assert A.shape == (1, codec.coordinates.d)
    assert y.shape == (1,)


@pytest.mark.parametrize("options", [{}, {"variance": None, "whiten": False}])
def test_small_rectangle_is_as_in_its_picture(options):
    images = blobs()
    codec = ImageCodec.fit(images, ids=[f"b{i}" for i in range(20)], **options)
    new, _ = draws(codec, fixes=["4:6,5:7=b7"])
    np.testing.assert_array_equal(new[:, 3:6, 4:7], np.broadcast_to(images[7, 3:6, 4:7], (50, 3, 3)))
    assert np.ptp(new[:, 0, 0].astype(int)) > 0
    assert codec.notes == ()


def test_large_rectangle_is_nearly_as_in_its_picture_and_leaves_the_rest_free():
    images = blobs()
    codec = ImageCodec.fit(images)
    A, _ = codec.observe(["1:12,1:5=8"])
    assert len(A) == codec.coordinates.d // 2
    assert "the fixed rectangle is met in 9 of 19 directions" in codec.notes[0]
    new, _ = draws(codec, n=200, fixes=["1:12,1:5=8"])
    free, k = draws(codec, n=2000)
    free = free[k == 7]  # drawn around the same picture, with nothing fixed
    gap, of_free = (np.abs(x.astype(float) - images[7]).mean((0, 1)) for x in (new, free))
    assert gap[:5].mean() < 0.7 * of_free[:5].mean()
    assert gap[5:].mean() > 0.3 * of_free[5:].mean()


def test_pixel_within_a_rectangle_wins():
    codec = ImageCodec.fit(blobs())
    new, _ = draws(codec, fixes=["1:12,1:5=8", "2,2=99"])
    assert (new[:, 1, 1] == 99).all()


def test_pixel_and_small_rectangle_are_both_met_exactly():
    images = blobs()
    new, _ = draws(ImageCodec.fit(images), fixes=["4:5,5:6=8", "9,9=150"])
    assert (new[:, 8, 8] == 150).all()
    assert (new[:, 3:5, 4:6] == images[7, 3:5, 4:6]).all()


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        ("13,1=5", "row 13 must lie within 1 to 12"),
        ("0,1=5", "row 0 must lie"),
        ("1,11=5", "column 11 must lie within 1 to 10"),
        ("5:3,1:2=a/1.png", "row 5:3 must lie"),
        ("1:2,1:11=a/1.png", "column 1:11 must lie"),
        ("1,1=256", "0 to 255"),
        ("1,1=-1", "0 to 255"),
        ("1,1=nan", "0 to 255"),
        ("1,1=1/2/3", "takes one level"),
        ("1,1=bright", "takes one level"),
        ("1,1", "not understood"),
        ("age=4", "not understood"),
        ("1:2,1:2=a/11.pn", "did you mean a/11.png"),
        ("1:2,1:2=zzzzzzzzzzz", "no stored picture has the id"),
    ],
)
def test_impossible_fixes_are_told(fix, words):
    codec = ImageCodec.fit(blobs(), ids=[f"a/{i}.png" for i in range(20)])
    with pytest.raises(InputError) as caught:
        codec.observe([fix])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fixes_that_contradict_each_other_or_every_picture():
    images = blobs()
    images[:, 0, 0] = 17
    codec = ImageCodec.fit(images)
    with pytest.raises(InputError, match="contradicts"):
        codec.observe(["2,2=5", "2,2=6"])
    with pytest.raises(InputError, match="pixel 1,1 cannot be 200: it is 17 in every stored picture"):
        codec.observe(["1,1=200"])
    assert codec.observe(["1,1=17"])[0].shape[1] == codec.coordinates.d
    everything = [f"{r},{c}={(r * c * 37) % 256}" for r in range(2, 13) for c in range(1, 11)]
    with pytest.raises(InputError, match="vary in 19 directions: fix fewer"):
        codec.observe(everything)
    with pytest.raises(InputError, match="takes a level such as 128, or three"):
        ImageCodec.fit(in_colour()).observe(["1,1=1/2"])


# Local heads


def spots(n=12, size=12, left=True, seed=0):
    """A spot in the left or in the right half, at a random height: (n, size, size) uint8."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    y, x = rng.uniform(1, size - 2, (n, 1, 1)), size / 4 if left else 3 * size / 4 - 1
    return (250 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 4)).astype(np.uint8)


def native(codec, weights=None, fixes=(), n=8, seed=0):
    sampler = codec.native(np.ones(codec.K) if weights is None else np.asarray(weights, float), fixes)
    items, memory = sampler.draw(n, np.random.default_rng(seed))
    return items, memory, sampler.about


@pytest.fixture
def any_reach(monkeypatch):
    """Choosing the reach takes time, and these tests do not draw."""
    monkeypatch.setattr("stochattn.generators.patches.local_heads._natural", lambda *_: 3.0)


@pytest.mark.parametrize("images", [blobs(20), in_colour(20, 12, 10)], ids=["grey", "rgb"])
def test_local_heads_hold_what_is_fixed(images):
    codec = ImageCodec.fit(images, ids=[f"b{i}" for i in range(20)])
    items, _, about = native(codec, fixes=["2:9,1:4=b7", "3,2=99", "12,10=255"])
    expected = images[7, 1:9, :4].copy()
    expected[1, 1] = 99
    assert (items[:, 1:9, :4] == expected).all()
    assert (items[:, 11, 9] == 255).all()
    assert np.ptp(items[:, 5, 7].astype(int)) > 0
    assert about.endswith("; not warped, so that what is fixed stays in its place")
    assert codec.notes == ()


def test_impossible_fixes_are_told_by_local_heads_too():
    codec = ImageCodec.fit(blobs())
    for fix, words in (("13,1=5", "row 13"), ("1:2,1:2=zzz", "no stored picture"), ("bright", "not understood")):
        with pytest.raises(InputError, match=words):
            codec.native(np.ones(20), [fix])


def test_a_kept_class_alone_makes_up_new_pictures():
    images = np.concatenate([spots(), spots(left=False)])
    codec = ImageCodec.fit(images, labels=["left"] * 12 + ["right"] * 12, warp=0)
    items, memory, _ = native(codec, np.repeat([0.0, 2.0], 12), n=16)
    assert items[:, :, :4].max() < 10 < 150 < items[:, :, 6:].max((1, 2)).min()
    assert (memory >= 12).all()


def test_weights_shift_shares_of_classes():
    """Right ones count four times: 0.8 of them, 0.5 without weights. 160 draws have a standard error of 0.03; the
    anneal, which mixes classes where it is hot, exaggerates what is common."""
    images = np.concatenate([spots(), spots(left=False)])
    codec = ImageCodec.fit(images, warp=0)
    shares = [(native(codec, np.repeat([1.0, w], 12), n=160)[1] >= 12).mean() for w in (1.0, 4.0)]
    assert shares[0] == pytest.approx(0.5, abs=0.15)
    assert shares[1] > 0.7


@pytest.mark.parametrize(
    ("n", "labels", "weights", "expected"),
    [
        (30, None, None, 12 / 28),
        (31, None, None, 0.0),
        (31, None, [0.0] + [3.0] * 30, 12 / 28),
        (60, ["a", "b"] * 30, None, 12 / 28),
        (60, ["a"] * 31 + ["b"] * 29, None, 0.0),
    ],
)
def test_few_pictures_are_warped(n, labels, weights, expected, any_reach):
    codec = ImageCodec.fit(spots(n), labels=labels)
    sampler = codec.native(np.ones(n) if weights is None else np.array(weights))
    assert sampler.warp == pytest.approx(expected)
    assert ("warped by 0.43 px, --warp 0" in sampler.about) == (expected > 0)
    assert ImageCodec.fit(spots(n), labels=labels, warp=0.7).native(np.ones(n)).warp == 0.7


def test_large_pictures_are_warped_by_one_pixel_and_halves_as_the_whole(any_reach):
    codec = ImageCodec.fit(spots(4, 40))
    assert codec.native(np.ones(4)).warp == 1
    many = ImageCodec.fit(spots(40))
    assert many.refit(many.stored[:20]).native(np.ones(20)).warp == 0
    classes = ImageCodec.fit(spots(40), labels=["a", "b"] * 20)
    assert classes.refit(classes.stored).native(np.ones(40)).warp == pytest.approx(12 / 28)


def test_warps_move_pixels_repeat_and_do_not_depend_on_company():
    straight, bent = (ImageCodec.fit(spots(), warp=warp) for warp in (0, 1))
    plain, _, about = native(straight, n=20)
    items, _, _ = native(bent, n=20)
    assert "warped" not in about
    assert np.abs(items.astype(int) - plain).max((1, 2)).min() > 10
    assert np.array_equal(items[:3], native(bent, n=3)[0])
    assert not np.array_equal(items, native(bent, n=20, seed=1)[0])


def test_warps_are_for_local_heads_alone():
    with pytest.raises(InputError, match="--warp 1 is for local heads"):
        ImageCodec.fit(spots(), warp=1).at(8.0)
    assert ImageCodec.fit(spots(), warp=0).at(8.0).K == 12
    with pytest.raises(ValueError, match="warp must be a finite number"):
        ImageCodec.fit(spots(), warp=np.nan)


def test_pictures_within_the_smallest_window_are_left_to_p_beta():
    codec = ImageCodec.fit(in_colour(6, 3, 2))
    for _ in range(2):
        assert codec.native(np.ones(6)) is None
    assert codec.notes == ("pictures of 2x3 are too small for local heads: p_beta is sampled instead",)


def awkward(kind):
    images = spots(6)
    images[:, 8:] = 17 if kind == "constant" else images[:, 8:]
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
    }[kind]


@pytest.mark.parametrize("kind", ["small", "two", "constant", "colour", "wide", "tiny", "duplicates"])
def test_awkward_pictures_give_new_ones(tmp_path, kind):
    images = awkward(kind)
    np.save(tmp_path / "in.npy", images)
    words = ["sample", tmp_path / "in.npy", "-n", 3, "--size", f"{images.shape[2]}x{images.shape[1]}"]
    result = CliRunner().invoke(app, [str(w) for w in (*words, "--warp", 0, "-o", tmp_path / "out.npy")])
    assert result.exit_code == 0, result.output
    new = np.load(tmp_path / "out.npy")
    assert new.shape == (3, *images.shape[1:])
    assert ("too small for local heads" in result.stderr) == (kind == "tiny")
    if kind == "constant":
        assert (new[:, 8:] == 17).all()
    if kind != "tiny":
        assert (new >= images.min(0) - 1.0).all()
        assert (new <= images.max(0) + 1.0).all()


@pytest.mark.parametrize(
    ("kind", "words"),
    [("one", "holds one picture"), ("alike", "all alike"), ("nan", "picture 3 holds NaN")],
)
def test_impossible_pictures_are_told_in_one_line(tmp_path, kind, words):
    np.save(tmp_path / "in.npy", awkward(kind))
    result = CliRunner().invoke(app, ["sample", str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npy")])
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_fixes_and_warps_reach_the_draws_of_the_command(tmp_path):
    np.savez(tmp_path / "in.npz", images=spots())
    for words, told in (("--fix 2,3=200 --fix 5:8,1:12=4", "not warped"), ("--warp 0.5", "warped by 0.5 px")):
        out = tmp_path / "out.npz"
        result = CliRunner().invoke(
            app, ["sample", str(tmp_path / "in.npz"), "-n", "3", *words.split(), "-o", str(out)]
        )
        assert result.exit_code == 0, result.output
        assert told in result.stderr
        if "fix" in words:
            new = np.load(out)["images"]
            assert (new[:, 1, 2] == 200).all()
            assert (new[:, 4:8] == spots()[3, 4:8]).all()
    result = CliRunner().invoke(app, ["sample", str(tmp_path / "in.npz"), "--warp", "1", "--beta", "8", "-o", str(out)])
    assert "--warp 1 is for local heads" in result.stderr


# Files out


def batches(codec, images, size=3):
    near = np.arange(len(images)) % codec.K
    for i in range(0, len(images), size):
        part = slice(i, i + size)
        yield Batch(i, images[part], near[part], np.full(len(images[part]), 0.25), {}, near[part])


def write(codec, place, format, images):
    writer = codec.writer(place, format, SETTINGS)
    for batch in batches(codec, images):
        writer.write(batch)
    writer.close()
    return place


def test_folder_of_pngs_with_sheet_and_table(tmp_path):
    codec = ImageCodec.fit(blobs(), ids=[f"b,{i}" for i in range(20)])
    new = blobs(7, seed=3)
    (tmp_path / "new").mkdir()
    write(codec, tmp_path / "new", "png", new)
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["contact-sheet.png", *(f"new-{i:06d}.png" for i in range(1, 8)), "samples.csv"]
    lines = (tmp_path / "new" / "samples.csv").read_text().split("\n")
    assert lines[0] == "number,nearest,novelty"
    assert lines[7] == '7,"b,6",0.250000'
    assert len(lines) == 9
    np.testing.assert_array_equal(codec.read_new(tmp_path / "new"), new)
    with Image.open(tmp_path / "new" / "new-000001.png") as image:
        assert json.loads(image.text["stochattn"])["seed"] == 1
    # and such a folder can be stored in turn
    assert ImageCodec.read(tmp_path / "new").K == 7


@pytest.mark.parametrize("format", ["npz", "npy"])
@pytest.mark.parametrize("images", [blobs(), in_colour()], ids=["grey", "rgb"])
def test_array_files_come_back(tmp_path, format, images):
    codec = ImageCodec.fit(images)
    stream = write(codec, io.BytesIO(), format, images[:7])
    path = tmp_path / f"new.{format}"
    path.write_bytes(stream.getvalue())
    np.testing.assert_array_equal(codec.read_new(path), images[:7])
    if format == "npz":
        with np.load(path, allow_pickle=False) as file:
            assert file["nearest"].tolist() == ["1", "2", "3", "4", "5", "6", "7"]
            assert file["novelty"].tolist() == [0.25] * 7
            assert json.loads(str(file["settings"]))["beta"] == 8.0


@pytest.mark.parametrize("format", ["npz", "npy", "sheet"])
def test_same_draws_give_the_same_bytes(format, monkeypatch):
    codec = ImageCodec.fit(in_colour())
    first = write(codec, io.BytesIO(), format, in_colour()).getvalue()
    monkeypatch.setattr("time.time", lambda: 1.7e9)
    assert write(codec, io.BytesIO(), format, in_colour()).getvalue() == first


def test_contact_sheet_places_pictures_in_rows():
    images = np.arange(1, 4, dtype=np.uint8)[:, None, None] * np.ones((1, 40, 30), np.uint8)
    sheet = contact_sheet(images)
    assert sheet.shape == (2 + 2 * 42, 2 + 2 * 32)
    assert [sheet[2, 2], sheet[2, 34], sheet[44, 2], sheet[44, 34]] == [1, 2, 3, 255]
    assert (sheet[41, 31], sheet[42, 31], sheet[41, 32]) == (1, 255, 255)


def test_sheet_shows_at_most_a_hundred():
    codec = ImageCodec.fit(blobs(width=70))
    many = np.tile(blobs(width=70), (6, 1, 1))
    with Image.open(io.BytesIO(write(codec, io.BytesIO(), "sheet", many).getvalue())) as sheet:
        assert sheet.size == (2 + 10 * 72, 2 + 10 * 14)


def test_new_pictures_of_another_shape_are_refused(tmp_path):
    codec = ImageCodec.fit(blobs())
    np.save(tmp_path / "a.npy", blobs(3, 10, 12))
    with pytest.raises(InputError, match=r"a\.npy is 12x10 pixels, and the stored pictures are 10x12"):
        codec.read_new(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"p00\.png is 9x9 pixels.*bring it to 10x12"):
        codec.read_new(folder_of(blobs(2, 9, 9), tmp_path / "b"))
    np.save(tmp_path / "c.npy", in_colour(3, 12, 10))
    with pytest.raises(InputError, match="the stored ones are grey"):
        codec.read_new(tmp_path / "c.npy")
    with pytest.raises(InputError, match="does not exist"):
        codec.read_new(tmp_path / "none.npy")
    (tmp_path / "sheet.png").write_bytes(b"")
    with pytest.raises(InputError, match="is one picture"):
        codec.read_new(tmp_path / "sheet.png")


def test_one_new_picture_and_dark_ones_are_read_as_they_are(tmp_path):
    codec = ImageCodec.fit(blobs())
    nearly_black = np.zeros((1, 12, 10), np.uint8)
    nearly_black[0, 3, 3] = 1
    np.save(tmp_path / "a.npy", nearly_black)
    np.testing.assert_array_equal(codec.read_new(tmp_path / "a.npy"), nearly_black)


# Comparison


def value(comparison, name):
    return next(m.value for m in comparison.measures if m.name == name)


def test_stored_pictures_compared_with_themselves_are_ideal():
    codec = ImageCodec.fit(blobs(), labels=["a", "b"] * 10)
    comparison = codec.compare(blobs())
    assert value(comparison, "exact copies") == 1
    for measure in comparison.measures:
        if measure.name != "exact copies":
            assert measure.value == pytest.approx(measure.ideal, abs=1e-12)
    assert [p.distance for p in comparison.parts] == [0] * 9


def test_measures_against_figures_by_hand():
    stored = np.array([[[0, 100], [0, 100]], [[100, 0], [100, 0]], [[0, 0], [0, 100]]], dtype=np.uint8)
    new = np.full((4, 2, 2), 50, dtype=np.uint8)
    new[3] = stored[0]
    comparison = ImageCodec.fit(stored).compare(new)
    assert value(comparison, "mean level") == pytest.approx(50 - 500 / 12)
    assert value(comparison, "exact copies") == 0.25
    # neighbours differ by 100 in 5 of the stored pictures' 12 pairs, 0 0 | 100 100, 0 0 | 100 100, 0 100 | 0 100
    down, across = np.mean([0, 0, 0, 0, 0, 100]), np.mean([100, 100, 100, 100, 0, 100])
    assert value(comparison, "sharpness") == pytest.approx((0 + 200 / 8) / (down + across))
    assert [p.name for p in comparison.parts] == ["top left", "top right", "bottom left", "bottom right"]
    assert comparison.parts[0].stored == "33 ± 47"
    assert comparison.parts[0].new == "38 ± 22"
    # levels 0, 100, 0 against 50, 50, 50, 0: distribution functions are 2/3 and 1/4 at 0, 2/3 and 1 at 50
    assert comparison.parts[0].distance == pytest.approx(2 / 3 - 1 / 4)


def test_classes_are_counted_by_the_nearest_stored_picture():
    images = blobs()
    codec = ImageCodec.fit(images, labels=["a"] * 5 + ["b"] * 15)
    comparison = codec.compare(images[[0, 1, 5, 6]])
    assert value(comparison, "class a") == 0.5
    assert next(m.ideal for m in comparison.measures if m.name == "class a") == 0.25
    assert value(comparison, "class shares") == 0.25


def test_regions_have_names_for_any_shape():
    names = [p.name for p in ImageCodec.fit(blobs()).compare(blobs()).parts]
    assert names == [
        *("top left", "top", "top right", "left", "centre", "right"),
        *("bottom left", "bottom", "bottom right"),
    ]
    thin = np.random.default_rng(0).integers(0, 255, (5, 1, 9), dtype=np.uint8)
    assert [p.name for p in ImageCodec.fit(thin).compare(thin).parts] == ["left", "centre", "right"]
    assert len(ImageCodec.fit(blobs()).compare(blobs(1)).measures) == 3  # one picture has no spread


# Real pictures


@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the face pictures under STOCHATTN_DATA")
def test_four_hundred_faces_come_back_and_stay_sharp():
    codec = ImageCodec.read(Path(os.environ["STOCHATTN_DATA"]) / "olivetti.npz")
    assert (codec.K, codec.shape, codec.coordinates.d) == (400, (64, 64), 399)
    assert codec.loss().items == 1
    small = ImageCodec.fit(codec.stored[:100])
    white = ImageCodec.fit(codec.stored[:100], variance=None, whiten=False)
    beta = stochattn.temperature.for_novelty(small.bank, 0.3)
    assert value(small.compare(draws(small, 300, beta)[0]), "sharpness") == pytest.approx(1.12, abs=0.05)
    beta = stochattn.temperature.for_novelty(white.bank, 0.3)
    assert value(white.compare(draws(white, 300, beta)[0]), "sharpness") > 3


def test_a_rectangle_may_come_from_a_picture_that_is_not_stored(tmp_path):
    codec = ImageCodec.fit(spots())
    other = spots(1, seed=9)[0]
    Image.fromarray(other).save(tmp_path / "other.png")
    new, _, _ = native(codec, fixes=(f"1:6,1:12={tmp_path / 'other.png'}",))
    assert (new[:, :6] == other[:6]).all()
    with pytest.raises(InputError, match=r"no stored picture has the id 'nowhere\.png', and no file that name"):
        native(codec, fixes=("1:6,1:12=nowhere.png",))


def test_the_nearest_stored_picture_is_so_by_its_pixels():
    """Pixels that vary by 60 levels beside some that vary by 2: rows are scaled, and have other neighbours."""
    rng = np.random.default_rng(0)
    pictures = np.clip(128 + np.geomspace(60, 2, 16).reshape(4, 4) * rng.standard_normal((230, 4, 4)), 0, 255)
    stored, new = np.split(pictures.astype(np.uint8), [200])
    codec = ImageCodec.fit(stored)
    by_pixels = np.square(new[:, None].astype(float) - stored[None]).sum((2, 3)).argmin(1)
    rows = codec.encode(new)
    by_rows = np.square(rows[:, None] - codec.coordinates.stored[None]).sum(2).argmin(1)
    assert codec.annotate(new, rows)[0].tolist() == by_pixels.tolist() != by_rows.tolist()
