"""Plain values are saved and loaded unchanged, and other files are rejected without running code."""

import datetime
import io
import pickle
import zipfile
from types import MappingProxyType

import numpy as np
import pytest

from stochattn._backend.state import decode, load_state, save_state

SCALARS = [
    *(None, True, False, 0, -7, 2**70, 0.1, -0.0, float("inf"), float("-inf"), 5e-324),
    *("", "text", 'quotes " and \\', "newline\n, tab\t, nul\0", "<script>", "žluťoučký 蛋白", "\ud800"),
    *(datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 23, 59, 58, 7)),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    *(slice(None), slice(1, 10, 2), slice(-3, None)),
]
CONTAINERS = [
    *([], (), {}, [1, "a", None], (1, (2, [3])), {"a": {"b": (1, 2)}}),
    *({1: "int key", (1, "x"): "tuple key", None: "none"}, {"__": "looks like a mark", "__kind": 1}),
    *([slice(2)], {"when": datetime.date(1999, 1, 1)}, [[1, 2], [3, 4]], {True: 1.5, "x": []}),
]
ARRAYS = [
    *(np.arange(6).reshape(2, 3), np.zeros((0, 4), np.float32), np.array(3.5), np.array([np.nan, -0.0, np.inf])),
    *(np.array([True, False]), np.array(["a", "bcd", ""]), np.array([1, 2], dtype="datetime64[D]"), np.float16([1, 2])),
    *(np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(10)[::3], np.uint8([[255]])),
]


def through_a_file(value, folder):
    path = folder / "state.npz"
    save_state(path, value)
    return load_state(path)


@pytest.mark.parametrize("value", [*SCALARS, *CONTAINERS], ids=repr)
def test_plain_values_keep_their_types(value, tmp_path):
    found = through_a_file(value, tmp_path)
    assert found == value
    assert repr(found) == repr(value)  # distinguishes 1 and True, tuple and list, 0.0 and -0.0


def test_nan_is_preserved(tmp_path):
    assert np.isnan(through_a_file([float("nan")], tmp_path)[0])


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_keep_dtype_and_shape(array, tmp_path):
    found = through_a_file({"deep": [array, (array,)]}, tmp_path)
    for one in (found["deep"][0], found["deep"][1][0]):
        assert one.dtype == array.dtype
        assert one.shape == array.shape
        np.testing.assert_array_equal(one, array)


def test_arrays_of_objects_are_preserved(tmp_path):
    array = np.empty((2, 2), dtype=object)
    array[0, 0], array[0, 1], array[1, 0], array[1, 1] = None, "text", [1, 2], [3, 4]
    found = through_a_file(array, tmp_path)
    assert found.dtype == object
    assert found.shape == (2, 2)
    assert found.tolist() == array.tolist()


def test_numbers_of_numpy_and_other_mappings_become_plain_ones(tmp_path):
    value = {"i": np.int32(3), "f": np.float32(0.5), "b": np.bool_(True), "s": slice(np.int64(1), np.int64(4))}
    found = through_a_file(MappingProxyType(value), tmp_path)
    assert found == {"i": 3, "f": 0.5, "b": True, "s": slice(1, 4)}
    assert [type(found[key]) for key in "ifb"] == [int, float, bool]


def test_tensors_become_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    found = through_a_file([torch.arange(3, dtype=torch.float32, requires_grad=True)], tmp_path)
    assert type(found[0]) is np.ndarray
    assert found[0].dtype == np.float32
    assert found[0].tolist() == [0, 1, 2]


def test_the_same_value_gives_the_same_bytes(tmp_path):
    value = {"rows": np.arange(100.0), "names": ("a", "b")}
    save_state(tmp_path / "a", value)
    save_state(tmp_path / "b", value)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"bytes", object(), 1j, lambda: 0, np.ma.masked_array([1.0, 2.0], [True, False])],
    ids=["set", "bytes", "object", "complex", "function", "masked array"],
)
def test_other_values_are_errors_before_a_file_is_written(value, tmp_path):
    with pytest.raises(TypeError, match="cannot be saved"):
        save_state(tmp_path / "state.npz", {"deep": [value]})
    assert not list(tmp_path.iterdir())


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a file ran code",)


def archive(**entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    {
        "empty": b"",
        "text": b"not a state",
        "pickle": pickle.dumps(Trap()),
        "array": npy(np.arange(3)),
        "archive of text": archive(state=b"{}"),
        "archive without a state": archive(rows=npy(np.arange(3))),
        "pickled object": archive(state=npy(np.array([Trap()], dtype=object))),
        "pickled array beside a state": archive(state=npy(np.array("1")), a=npy(np.array([Trap()], dtype=object))),
        "not json": archive(state=npy(np.array("{"))),
        "unknown mark": archive(state=npy(np.array('{"__": "function", "items": []}'))),
        "missing array": archive(state=npy(np.array('{"__": "array", "name": "array0"}'))),
        "wrong date": archive(state=npy(np.array('{"__": "date", "text": "NaT"}'))),
        "list as a key": archive(state=npy(np.array('{"__": "mapping", "items": [[[1], 2]]}'))),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_file_of_another_program_is_rejected(content, tmp_path):
    path = tmp_path / "state.npz"
    path.write_bytes(content[1])
    with pytest.raises(ValueError, match="does not hold a saved state"):
        load_state(path)


def test_a_missing_file_stays_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_state(tmp_path / "state.npz")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.npz"
    save_state(path, [1])
    with pytest.raises(TypeError):
        save_state(path, {1, 2})
    assert load_state(path) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_json_text_is_enough_without_arrays():
    assert decode({"a": [1, {"__": "tuple", "items": [2]}]}, {}) == {"a": [1, (2,)]}
