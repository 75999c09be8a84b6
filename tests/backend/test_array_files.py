"""Arrays in .npy and .npz files: limits, arrays that are not wanted, and files that are damaged at random."""

import io
import re
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from PIL import Image

import stochattn as sa
from banks import make_bank
from stochattn._backend import array_files
from stochattn._backend.array_files import ArrayFileError, npy_header, npz_headers, read_npy, read_npz
from stochattn._backend.state import load_state, save_state
from stochattn.kinds import InputError
from stochattn.kinds.registry import kind_for

HEADER = b"\x93NUMPY\x01\x00\x76\x00"
UNCLOSED = HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2".ljust(117) + b"\n" + bytes(48)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def damaged(content, rng):
    """The content with a byte changed, bytes removed, or bytes overwritten, at a random place."""
    place, changed = int(rng.integers(len(content))), bytearray(content)
    match rng.integers(4):
        case 0:
            changed[place] ^= int(rng.integers(1, 256))
        case 1:
            del changed[place:]
        case 2:
            del changed[place : place + int(rng.integers(1, 40))]
        case _:
            changed[place : place + 8] = rng.bytes(8)
    return bytes(changed)


def test_arrays_come_back_as_numpy_reads_them(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(["x", "yz"]), "c": np.asfortranarray(np.eye(3, 2))}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = read_npz(tmp_path / "a.npz")
        assert list(found) == ["a", "b", "c"]
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            np.testing.assert_array_equal(read_npy(io.BytesIO(npy(array))), array)
    assert npz_headers(tmp_path / "a.npz")["c"] == ((3, 2), True, np.dtype(float))
    assert read_npz(tmp_path / "a.npz", {"b"}).keys() == {"b"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (UNCLOSED, "it does not begin with the header of an array"),
        (b"", "it does not begin with the header of an array"),
        (b"a,b", "it does not begin with the header of an array"),
        (HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2)}".ljust(118), "an impossible shape"),
        (HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 2)}".ljust(118), "header of an array"),
        (npy(np.eye(3))[:-1], "it is truncated: 72 bytes are declared, and 71 are left"),
        (npy(np.array([None])), "it holds Python objects, which are not read"),
    ],
)
def test_files_that_are_not_arrays_are_refused_with_a_reason(content, reason, tmp_path):
    with pytest.raises(ArrayFileError, match=re.escape(reason)):
        read_npy(io.BytesIO(content))
    path = tmp_path / "data.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"data\.npy") as caught:
        sa.fit(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"data\.npy") as caught:
        sa.fit(path, "table")
    assert "\n" not in str(caught.value)


def test_recognition_reads_the_header_alone(tmp_path):
    content = HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 2), }".ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(content)
    assert npy_header(tmp_path / "a.npy").ndim == 2
    assert kind_for(tmp_path / "a.npy").name == "table"
    assert npy_header(tmp_path / "none.npy") is None


def test_a_file_beyond_the_limit_is_refused_before_it_is_inflated(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((50, 512, 512)))  # 105 MB, of which 0.1 MB are written
    save_state(tmp_path / "b.npz", {"rows": np.zeros((50, 512, 512))})
    monkeypatch.setattr("stochattn.kinds.item_files.MAX_BYTES", 5 * 10**7)
    monkeypatch.setattr(array_files.read_npz, "__defaults__", (None, 5 * 10**7))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"a\.npz .*its arrays take 0.105 GB, and the limit is 0.05 GB"):
            sa.fit(tmp_path / "a.npz")
        with pytest.raises(ValueError, match=r"b\.npz .*its arrays take 0.105 GB, and the limit is 0.05 GB"):
            load_state(tmp_path / "b.npz")
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_arrays_without_compression_have_no_limit(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(1000))
    assert read_npz(tmp_path / "a.npz", max_bytes=10)["x"].shape == (1000,)


def test_arrays_that_are_not_pictures_are_not_inflated(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (4, 6, 6))
    np.savez_compressed(tmp_path / "a.npz", images=pictures, labels=list("abab"), other=np.zeros(2 * 10**7))
    tracemalloc.start()
    try:
        synth = sa.fit(tmp_path / "a.npz")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert synth.codec.labels == ("a", "b", "a", "b")


def test_a_picture_of_too_many_pixels_is_refused_in_one_line(tmp_path, monkeypatch):
    for i in range(3):
        Image.fromarray(np.full((30, 30), i, np.uint8)).save(tmp_path / f"{i}.png")
    for limit in (500, 100):  # Pillow warns above its limit, and raises above twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(InputError, match=rf"0\.png has more than the limit of {limit} pixels: shrink or remove it"):
            sa.fit(tmp_path)


def messages_of_damaged_files(path, content, n, load, errors):
    """What loading n files, each damaged at another place, says; undetected damage leaves a file that loads."""
    rng, said = np.random.default_rng(0), []
    for _ in range(n):
        path.write_bytes(damaged(content, rng))
        with warnings.catch_warnings(action="error"):
            try:
                load(path)
            except errors as error:
                said.append(str(error))
    return said


def test_damaged_draws_and_synthesizers_are_value_errors_that_name_the_file(tmp_path):
    path = tmp_path / "file.npz"
    draws = sa.run(make_bank("unit"), 9.0, n_chains=2, n_steps=20, warmup=0, thin=5, rng=0)
    synth = sa.fit(np.random.default_rng(0).random((20, 3)), "table")
    for saved, load in ((draws, sa.Draws.load), (synth, sa.load)):
        path.unlink(missing_ok=True)
        saved.save(path)
        said = messages_of_damaged_files(path, path.read_bytes(), 100, load, ValueError)
        assert len(said) > 75
        assert all("file.npz" in message and "\n" not in message for message in said)


def test_damaged_matrices_are_errors_that_name_the_file(tmp_path):
    path, content = tmp_path / "file.npy", npy(np.random.default_rng(0).random((5, 3)))
    said = messages_of_damaged_files(path, content, 200, sa.MemoryBank.open, (ValueError, TypeError))
    assert all("file.npy" in message or message.startswith("patterns must") for message in said)
    tables = messages_of_damaged_files(path, content, 100, partial(sa.fit, kind="table"), InputError)
    assert all("file.npy" in message for message in tables)
    assert min(len(said), len(tables)) > 50
