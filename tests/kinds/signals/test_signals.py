"""Signals: files of every format, what is refused, conditions on time, draws within classes, the command line."""

import json
import re
import wave

import numpy as np
import pytest

import stochattn as sa
from command_runner import refused, works
from made_items import signals, write_pictures, write_ts
from stochattn.kinds import InputError
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.registry import kind_for
from stochattn.kinds.signals.kind import KIND
from stochattn.kinds.signals.reading import SignalOptions, read_signals
from stochattn.kinds.signals.writing import autocorrelation_distance, spectral_distance
from stochattn.kinds.summary import read_summary

SETTING = {"width": 0.5, "spacing": 15, "pooled": 0.0, "roughness": 0.1, "shift": 0, "slide": 0}  # not searched for


def write_wav(path, values, rate=8000, width=2):
    """Whole numbers (channels, points) as a PCM file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as out:
        out.setparams((len(values), width, rate, 0, "NONE", ""))
        unsigned = np.asarray(values).T.ravel() + (128 if width == 1 else 0)
        out.writeframes(b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in unsigned))
    return path


def write_wavs(folder, n=6, points=50, channels=1, width=2):
    """A folder of WAV files in two classes."""
    top = 2 ** (8 * width - 1)
    values = np.rint(signals(n, points, channels)[0] * top / 6).astype(int)
    for i, one in enumerate(values):
        write_wav(folder / ("=a", "b")[i % 2] / f"{i}.wav", one, width=width)  # a formula to a spreadsheet
    order = [i for label in range(2) for i in range(label, n, 2)]
    return folder, values[order] / top


# Reading


def test_arrays_are_signals_where_the_user_says_so():
    values, labels = signals()
    synth = sa.fit(values[:, 0], "signals", labels=labels)
    np.testing.assert_array_equal(synth.codec.stored, values)
    assert synth.codec.labels == labels
    assert synth.codec.to_user(synth.codec.stored).shape == (24, 60)
    three = sa.fit(signals(channels=3)[0], "signals", channels=["x", "y", "z"])
    assert three.codec.channels == ("x", "y", "z")
    assert three.sample(4, rng=0).shape == (4, 3, 60)
    assert three.codec.labels is None


@pytest.mark.parametrize("channels", [1, 3])
def test_ts_files_are_read_and_written(tmp_path, channels):
    values, labels = signals(channels=channels)
    synth = sa.fit(write_ts(tmp_path / "a.ts", values, labels))
    assert synth.kind is KIND
    np.testing.assert_array_equal(synth.codec.stored, values)
    assert synth.codec.labels == labels
    assert synth.codec.flat == (channels == 1)
    synth = synth.with_generator("windows", **SETTING)
    synth.write(tmp_path / "new.ts", 10, rng=0)
    again = sa.fit(tmp_path / "new.ts")
    np.testing.assert_array_equal(again.codec.stored, synth.sample_items(10, 0))
    source = np.concatenate([batch.source for batch in synth.batches(10, 0)])
    assert again.codec.labels == tuple(labels[k] for k in source)
    assert sa.fit(write_ts(tmp_path / "b.ts", values)).codec.labels is None


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("extension", [".csv", ".npz", ".npy"])
def test_other_files_come_back_as_they_were_written(tmp_path, channels, extension):
    values, labels = signals(channels=channels)
    data = values[:, 0] if channels == 1 else values
    synth = sa.fit(data, "signals", labels=labels).with_generator("windows", **SETTING)
    path = tmp_path / f"new{extension}"
    synth.write(path, 10, rng=0)
    again = sa.fit(path, "signals")
    np.testing.assert_array_equal(again.codec.stored, synth.sample_items(10, 0))
    assert again.codec.flat == (channels == 1)
    source = np.concatenate([batch.source for batch in synth.batches(10, 0)])
    assert again.codec.labels == (None if extension == ".npy" else tuple(labels[k] for k in source))
    assert read_summary(path).kind == "signals"


def test_csv_files_with_classes_first_last_or_by_name(tmp_path):
    values, labels = signals(8, 12)
    rows = [[f"{v:.4f}" for v in one] for one in values[:, 0]]
    number = {"a": "1", "b": "2"}
    for name, made in {
        "first": [[number[label], *row] for label, row in zip(labels, rows, strict=True)],
        "last": [[*row, number[label]] for label, row in zip(labels, rows, strict=True)],
    }.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(map(",".join, made)) + "\n")
        codec = sa.fit(path, "signals", label=name).codec
        assert codec.labels == tuple(number[label] for label in labels)
        np.testing.assert_array_equal(codec.stored, values.round(4))
        assert kind_for(path).name == "table"
        assert sa.fit(path, "signals").codec.length == 13  # numbers are points unless the user says otherwise
    head = ",".join(["kind", *(f"t{t}" for t in range(12))])
    path.write_text("\n".join([head, *(",".join([f"class {x}", *row]) for x, row in zip(labels, rows, strict=True))]))
    assert sa.fit(path, "signals").codec.labels == tuple(f"class {x}" for x in labels)  # the only column of texts
    assert sa.fit(path, "signals", label="none").codec.labels is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["a,b,t1,t2,t3", *["x,u,1,2,3", "y,v,4,5,7"] * 2],
            "column 'a': 'x' is not a number, and neither is any other",
        ),
        (["t1,t2,t3,t4", "1,2,3,4", "4,,6,8"], "column 't2': the value is missing"),
        (["t1,t2,t3,t4", "1,2,3,4", "4,5,oops,8"], "column 't3': 'oops' is not a number"),
        (["class", "a", "b"], "has no column of numbers: write one row per signal"),
        (["x@1,x@2,x@3,y@1,y@2", "1,2,3,4,5", "5,4,3,2,2"], "channels x, y have different points"),
    ],
)
def test_csv_files_that_cannot_be_used(tmp_path, rows, message):
    """Two columns of texts are not classes: which of them would be?"""
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match=message):
        sa.fit(tmp_path / "a.csv", "signals")


def test_new_rows_of_a_csv_have_its_columns(tmp_path):
    """Names and order are kept, with points of two channels mixed and a class between them."""
    rng, head = np.random.default_rng(0), "y@2,x@1,kind,x@3,y@1,x@2,y@3"
    rows = [f"{a},{b},{10 + i % 2},{c},{d},{e},{f}" for i, (a, b, c, d, e, f) in enumerate(rng.normal(size=(12, 6)))]
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    synth = sa.fit(tmp_path / "a.csv", "signals", label="kind")
    synth.write(tmp_path / "new.csv", 4, rng=0)
    written = [line.split(",") for line in (tmp_path / "new.csv").read_text().splitlines()]
    assert ",".join(written[0]) == head
    assert {row[2] for row in written[1:]} == {"10", "11"}
    new, places = synth.sample(4, rng=0), [(0, 1), (1, 0), (1, 2), (0, 0), (1, 1), (0, 2)]  # y is the first channel
    for row, signal in zip(written[1:], new, strict=True):
        assert [float(cell) for n, cell in enumerate(row) if n != 2] == [signal[place] for place in places]
    np.testing.assert_array_equal(synth.kind.read_new(synth.codec, tmp_path / "new.csv"), new)
    synth.save(tmp_path / "a.synth")
    sa.load(tmp_path / "a.synth").write(tmp_path / "again.csv", 4, rng=0)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "new.csv").read_bytes()


def test_a_column_of_different_texts_names_the_signals(tmp_path):
    """It is read beside a column of classes, never repeated, and new signals are numbered."""
    rng = np.random.default_rng(0)
    cells = [",".join(map(str, row)) for row in rng.normal(size=(12, 4)).tolist()]
    rows = [f"P{i:03d},{cell},{'ab'[i % 2]}" for i, cell in enumerate(cells)]
    (tmp_path / "a.csv").write_text("\n".join(["patient,1,2,3,4,rhythm", *rows]) + "\n")
    synth = sa.fit(tmp_path / "a.csv", "signals")
    assert synth.codec.ids[:2] == ("P000", "P001")
    assert synth.codec.labels[:2] == ("a", "b")
    synth.write(tmp_path / "new.csv", 3, rng=0)
    head, *written = [line.split(",") for line in (tmp_path / "new.csv").read_text().splitlines()]
    assert head == ["patient", "1", "2", "3", "4", "rhythm"]
    assert [row[0] for row in written] == ["new-1", "new-2", "new-3"]
    assert {row[5] for row in written} <= {"a", "b"}
    np.testing.assert_array_equal(synth.kind.read_new(synth.codec, tmp_path / "new.csv")[:, 0], synth.sample(3, rng=0))
    alone = [row.rpartition(",")[0] for row in rows]
    (tmp_path / "b.csv").write_text("\n".join(["patient,1,2,3,4", *alone]) + "\n")
    assert sa.fit(tmp_path / "b.csv", "signals").codec.labels is None
    two = [f"{row},{'xy'[i // 6]}" for i, row in enumerate(rows)]
    (tmp_path / "c.csv").write_text("\n".join(["patient,1,2,3,4,rhythm,site", *two]) + "\n")
    with pytest.raises(InputError, match=r"column 'rhythm': 'a' is not a number, .* Pass the column as label"):
        sa.fit(tmp_path / "c.csv", "signals")


@pytest.mark.parametrize("values", [lambda i: i % 2, lambda i: i])
def test_a_column_of_whole_numbers_among_points_gets_a_note(tmp_path, values):
    rng = np.random.default_rng(0)
    rows = [
        ",".join(map(str, [*row[:5], values(i), *row[5:]])) for i, row in enumerate(rng.normal(size=(12, 11)).tolist())
    ]
    head = ",".join([*(f"t{i}" for i in range(5)), "diagnosis", *(f"t{i}" for i in range(5, 11))])
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    [note] = [note for note in sa.fit(tmp_path / "a.csv", "signals").codec.notes if "diagnosis" in note]
    assert note == (
        "column 'diagnosis' has integers only and is read as a point. If it holds classes, pass it as label; "
        "if it numbers rows, remove it"
    )
    counts = "\n".join([head, *(",".join(map(str, row)) for row in rng.integers(9, size=(12, 12)).tolist())])
    (tmp_path / "c.csv").write_text(counts + "\n")
    assert not any("diagnosis" in note for note in sa.fit(tmp_path / "c.csv", "signals").codec.notes)


def test_a_point_as_in_a_whole_signal():
    """An array as long as a signal conditions one point by its value there, and each channel has its own."""
    stored = np.random.default_rng(0).normal(size=(6, 5))
    codec = sa.fit(stored, "signals").codec
    positions, values = codec.condition({3: stored[2]}).observation
    assert (positions.tolist(), values.tolist()) == ([3], [stored[2, 3]])
    two = sa.fit(np.stack([stored, -stored], axis=1), "signals").codec
    assert two.condition({3: np.array([0.5, 0.25])}).observation[1].tolist() == [0.5, 0.25]


def test_the_parts_of_a_signal_are_its_channels():
    synth = sa.fit(np.random.default_rng(0).normal(size=(6, 2, 5)), "signals", channels=["x", "y"])
    names, channels = synth.kind.measures.parts(synth.codec)
    assert names == ("x", "y")
    assert channels.tolist() == [0, 1] * 5  # time first, as in the arrays of generators


@pytest.mark.parametrize("head", ["p,q,r,s", "CLASS 1,q,class 2,s"])
def test_classes_from_elsewhere_are_the_first_column(tmp_path, head):
    rows = [",".join(map(str, row)) for row in np.random.default_rng(0).normal(size=(12, 4)).tolist()]
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    synth = sa.fit(tmp_path / "a.csv", "signals", labels=["a", "b"] * 6)
    synth.write(tmp_path / "new.csv", 4, rng=0)
    written = (tmp_path / "new.csv").read_text().splitlines()
    assert written[0] == f"class,{head}"
    assert {line.split(",")[0] for line in written[1:]} == {"a", "b"}
    np.testing.assert_array_equal(synth.kind.read_new(synth.codec, tmp_path / "new.csv")[:, 0], synth.sample(4, rng=0))


def test_columns_of_points_are_points_in_new_files_too(tmp_path):
    """A file with one class, whose points are called x, y and z: y is not the class of new signals."""
    rows = [f"k,{a},{b},{c}" for a, b, c in np.random.default_rng(0).normal(size=(12, 3)).tolist()]
    (tmp_path / "a.csv").write_text("\n".join(["kind,x,y,z", *rows]) + "\n")
    synth = sa.fit(tmp_path / "a.csv", "signals", label="kind")
    synth.write(tmp_path / "new.csv", 3, rng=0)
    assert (tmp_path / "new.csv").read_text().splitlines()[0] == "x,y,z"
    np.testing.assert_array_equal(synth.kind.read_new(synth.codec, tmp_path / "new.csv")[:, 0], synth.sample(3, rng=0))


def test_few_new_rows_of_different_classes_are_not_named_by_them(tmp_path):
    """Two rows with the classes a and b: the column is that of classes, as in the stored file."""
    rows = [
        ",".join(["ab"[i % 2], *map(str, row)]) for i, row in enumerate(np.random.default_rng(0).normal(size=(12, 4)))
    ]
    (tmp_path / "a.csv").write_text("\n".join(["rhythm,1,2,3,4", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["rhythm,1,2,3,4", *rows[:2]]) + "\n")
    synth = sa.fit(tmp_path / "a.csv", "signals")
    found = read_signals(tmp_path / "new.csv", like=synth.codec)
    assert (found.labels, found.ids, found.id_column) == (("a", "b"), ("1", "2"), None)


def test_signals_that_are_cut_have_the_columns_that_are_left(tmp_path):
    head, rng = [f"hour {i}" for i in range(6)], np.random.default_rng(0)
    rows = [",".join(map(str, row)) for row in rng.normal(size=(12, 6)).tolist()]
    (tmp_path / "a.csv").write_text("\n".join([",".join(head), *rows]) + "\n")
    sa.fit(tmp_path / "a.csv", "signals", length=4).write(tmp_path / "new.csv", 2, rng=0)
    assert (tmp_path / "new.csv").read_text().splitlines()[0] == "hour 0,hour 1,hour 2,hour 3"
    (tmp_path / "b.csv").write_text("\n".join(rows) + "\n")  # without names
    sa.fit(tmp_path / "b.csv", "signals").write(tmp_path / "new2.csv", 2, rng=0)
    assert (tmp_path / "new2.csv").read_text().splitlines()[0] == "t1,t2,t3,t4,t5,t6"


def test_columns_of_a_csv_may_stand_in_any_order(tmp_path):
    head, rows = "y@2,x@1,target,y@1,x@2,x@3,y@3", ["5,1,A,4,2,3,6", "50,10,A,40,20,30,60"]
    (tmp_path / "a.csv").write_text("\n".join([head, *rows, *(row.replace("A", "B") for row in rows)]) + "\n")
    codec = sa.fit(tmp_path / "a.csv", "signals").codec
    assert codec.channels == ("y", "x")
    assert codec.labels == ("A", "A", "B", "B")
    np.testing.assert_array_equal(codec.stored[0], [[4, 5, 6], [1, 2, 3]])


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_folders_are_read_and_written(tmp_path, width, channels):
    folder, values = write_wavs(tmp_path / "calls", width=width, channels=channels)
    synth = sa.fit(folder).with_generator("windows", **SETTING)
    assert synth.kind is KIND
    np.testing.assert_array_equal(synth.codec.stored, values)
    assert synth.codec.labels == ("=a",) * 3 + ("b",) * 3
    assert synth.codec.channels == (("1",) if channels == 1 else ("left", "right"))
    synth.write(tmp_path / "new", 8, rng=0)
    again = sa.fit(tmp_path / "new")
    np.testing.assert_array_equal(again.codec.stored, synth.sample_items(8, 0))
    assert (again.codec.rate, again.codec.bits) == (8000, 8 * width)
    source = np.concatenate([batch.source for batch in synth.batches(8, 0)])
    assert again.codec.labels == tuple(synth.codec.labels[k] for k in source)
    assert ",=" not in (tmp_path / "new" / "samples.csv").read_text()


def test_wav_files_beside_folders_and_other_files(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a/1", "a/2", "a b/1", "a b/2", "z", "y"):
        write_wav(tmp_path / "calls" / f"{name}.wav", rng.integers(-99, 99, (1, 20)))
    (tmp_path / "calls" / "notes.txt").write_text("recorded on Monday")
    write_wav(tmp_path / "calls" / ".trash" / "b.wav", [[1, 2, 3]])
    codec = sa.fit(tmp_path / "calls").codec
    assert codec.ids == ("a b/1.wav", "a b/2.wav", "a/1.wav", "a/2.wav", "y.wav", "z.wav")  # sorted by name
    assert codec.labels == ("a b", "a b", "a", "a", "(none)", "(none)")


def test_wav_files_of_different_widths_have_the_finest_step(tmp_path):
    rng = np.random.default_rng(0)
    for width in (1, 2):
        write_wav(tmp_path / f"{width}.wav", rng.integers(-99, 99, (1, 20)), width=width)
    (tmp_path / "samples.csv").write_text("file,speaker\n1.wav,a\n2.wav,b\n")  # not a table of this package
    codec = sa.fit(tmp_path).codec
    assert (codec.bits, codec.step, codec.limits) == (16, 2**-15, (-1, 1 - 2**-15))
    assert codec.labels is None


def test_a_wav_file_gives_the_values_of_a_condition(tmp_path):
    folder, values = write_wavs(tmp_path / "calls")
    codec = sa.fit(folder).codec
    [(key, value)] = KIND.parse_condition(codec, [f"1:9={folder / '=a' / '2.wav'}"]).items()
    assert key == (0, 9)
    np.testing.assert_array_equal(value, values[1])


def test_files_in_parts_are_read_as_one(tmp_path):
    values, labels = signals(12, 20)
    classed = [
        write_ts(tmp_path / f"{i}.ts", values[part], labels[part]) for i, part in enumerate((slice(5), slice(5, 12)))
    ]
    codec = KIND.read_files(classed, SignalOptions())
    np.testing.assert_array_equal(codec.stored, values)
    assert codec.labels == labels
    assert codec.ids == tuple(map(str, range(1, 13)))
    plain = write_ts(tmp_path / "plain.ts", values[5:])
    assert KIND.read_files([classed[0], plain], SignalOptions()).labels is None
    with pytest.raises(InputError, match=r"parts must hold signals of one shape; got \(1, 20\), \(1, 10\)"):
        KIND.read_files([plain, write_ts(tmp_path / "short.ts", values[:, :, :10])], SignalOptions())


def test_the_array_of_a_file_that_holds_the_signals(tmp_path):
    values, labels = signals(12, 16)
    path = tmp_path / "a.npz"
    np.savez(path, weights=np.ones((12, 3)), signals=values, y=np.array(labels), ids=np.arange(100, 112))
    codec = sa.fit(path, "signals").codec
    np.testing.assert_array_equal(codec.stored, values)
    assert codec.labels == labels
    assert codec.ids[0] == "100"
    np.savez(path, other=values[:, 0], y=np.arange(12) % 2)
    np.testing.assert_array_equal(sa.fit(path, "signals").codec.stored, values)
    np.savez(path, first=values, second=values)
    with pytest.raises(InputError, match="has several arrays that could be signals"):
        sa.fit(path, "signals")


def test_zarr_files_of_signals(tmp_path):
    values, _ = signals(12, 16)
    synth = sa.fit(values[:, 0], "signals").with_generator("windows", **SETTING)
    synth.write(tmp_path / "new.zarr", 5, rng=0)
    again = sa.fit(tmp_path / "new.zarr", "signals").codec
    np.testing.assert_array_equal(again.stored, synth.sample_items(5, 0))


def test_a_label_that_names_no_column_is_refused(tmp_path):
    values, labels = signals(8, 12)
    np.save(tmp_path / "x.npy", values[:, 0])
    np.savez(tmp_path / "x.npz", signals=values, labels=np.array(labels))
    folder, _ = write_wavs(tmp_path / "sounds")
    for path in (tmp_path / "x.npy", tmp_path / "x.npz", write_ts(tmp_path / "x.ts", values, labels), folder):
        with pytest.raises(InputError, match=r"label must name a column, and .* has none; got .y.\. Leave it"):
            sa.fit(path, "signals", label="y")
        assert sa.fit(path, "signals", label="none").codec.labels is None
    with pytest.raises(InputError, match=r"and an array has none; got .y.\. Pass the classes as labels"):
        sa.fit(values, "signals", label="y")
    refused("sample", str(tmp_path / "x.npy"), "--kind", "signals", "--label", "y", "-o", str(tmp_path / "new.ts"))


def test_few_short_signals_are_not_taken_for_the_transpose_of_long_ones():
    rng = np.random.default_rng(0)
    assert sa.fit(rng.normal(size=(31, 4)), "signals").codec.length == 4
    assert sa.fit(rng.normal(size=(60, 8)), "signals").codec.length == 8
    assert sa.fit(rng.normal(size=(60, 4)), "signals", channels=["x"]).codec.channels == ("x",)


def test_classes_that_would_get_the_same_word_stay_distinct(tmp_path):
    values, _ = signals(8, 12)
    names = ["a b", "a_b", "a:b", "a_b_2"]
    synth = sa.fit(values, "signals", labels=names * 2)
    synth.write(tmp_path / "new.ts", 8, rng=0)
    source = np.concatenate([batch.source for batch in synth.batches(8, 0)])
    again = sa.fit(tmp_path / "new.ts").codec.labels
    assert len({(names[k % 4], word) for k, word in zip(source, again, strict=True)}) == len(set(again)) == 4
    assert all(word == names[k % 4] for k, word in zip(source, again, strict=True) if k % 4 in (1, 3))


def test_classes_in_ts_files_are_single_words(tmp_path):
    values, _ = signals(8, 12, 2)
    synth = sa.fit(values, "signals", labels=["a b", "c:d", " ", "e"] * 2).with_generator("windows", **SETTING)
    synth.write(tmp_path / "new.ts", 8, rng=0)
    text = (tmp_path / "new.ts").read_text()
    assert "@dimension 2\n" in text
    assert "@classLabel true _ a_b c_d e\n" in text
    source = np.concatenate([batch.source for batch in synth.batches(8, 0)])
    assert sa.fit(tmp_path / "new.ts").codec.labels == tuple(("a_b", "c_d", "_", "e")[k % 4] for k in source)


def test_ts_files_without_classes(tmp_path):
    synth = sa.fit(signals(8, 12)[0], "signals").with_generator("windows", **SETTING)
    synth.write(tmp_path / "new.ts", 5, rng=0)
    text = (tmp_path / "new.ts").read_text()
    assert "@classLabel false\n" in text
    assert "@dimension" not in text
    settings = json.loads(text.splitlines()[0].removeprefix("# stochattn "))
    assert list(settings) == sorted(settings)
    np.testing.assert_array_equal(sa.fit(tmp_path / "new.ts").codec.stored, synth.sample_items(5, 0))


def test_files_of_other_kinds_stay_theirs(tmp_path):
    values, _ = signals(12, 16)
    np.save(tmp_path / "matrix.npy", values[:, 0])
    np.save(tmp_path / "pictures.npy", np.zeros((5, 8, 8)))
    np.savez(tmp_path / "pictures.npz", images=np.zeros((5, 8, 8)))
    np.savez(tmp_path / "signals.npz", signals=values)
    faces = write_pictures(tmp_path / "faces")
    found = {name: kind_for(tmp_path / name).name for name in ("matrix.npy", "pictures.npy", "pictures.npz", "faces")}
    assert found == {"matrix.npy": "table", "pictures.npy": "image", "pictures.npz": "image", "faces": "image"}
    assert kind_for(tmp_path / "signals.npz").name == "signals"
    write_wav(faces / "sound.wav", [[1, 2, 3]])
    assert kind_for(faces).name == "image"
    with pytest.raises(InputError, match="is one signal, and at least two are needed: name the folder"):
        kind_for(faces / "sound.wav")


# What is refused


def spoilt(change):
    values = signals(8, 20)[0]
    return change(values)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (lambda x: x[:1], {}, "signals holds one signal, and at least two are needed: add others."),
        (lambda x: np.where(x == x[2, 0, 4], np.nan, x), {}, "signal 3 has nan at point 5, and every value must be"),
        (lambda x: np.repeat(np.where(x < 9, np.inf, x), 2, 1), {}, "signal 1 has inf at point 1 of channel 1, and"),
        (lambda x: np.repeat(x[:1], 5, 0), {}, "all signals are equal, so there is nothing to vary"),
        (lambda x: np.tile(x.swapaxes(1, 2), (1, 5, 1)), {}, "has 100 channels of 1 points; points are the last axis"),
        (lambda x: np.tile(x[:, 0].T, (3, 1))[:, :4], {}, "is 60 signals of 4 points; each row is a signal. Transpose"),
        (lambda x: x[:, :, :2], {}, "signals have 2 points, and at least 3 are needed"),
        (lambda x: x[None, None], {}, r"must be an array .n, points. or .n, channels, points., without empty"),
        (lambda x: x[0, 0], {}, "this is one recording of 20 points. Cut it into signals with window=N"),
        (lambda x: x.astype(str), {}, "signals must be numbers; got .*. Pass classes as labels"),
        (
            lambda x: x * 1e200,
            {},
            r"must lie between 1e-130 and 1e\+130, so that sums of squares are finite. Write the values in",
        ),
        (lambda x: x[0, 0], {"window": 15}, "window=15 cuts 20 points into fewer than two windows. Lower window"),
        (lambda x: x, {"labels": list("aaaabbbc")}, "class 'c' has one signal, and new signals are drawn within"),
        (lambda x: x, {"labels": ["a"]}, "labels must name each of the 8 signals; got 1"),
        (lambda x: x, {"channels": ["a", "b"]}, "channels must name each of the 1 channels of signals once; got a, b"),
        (lambda x: x, {"length": 21}, "length must be 1 to 20, the points that signals have; got 21"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(data, options, message):
    with pytest.raises(InputError, match=message) as caught:
        sa.fit(spoilt(data), "signals", **options)
    assert "\n" not in str(caught.value)


def test_one_class_of_one_signal_is_read_without_classes():
    values, _ = signals(8, 20)
    assert sa.fit(values, "signals", labels=list("aaaabbbc"), label="none").codec.labels is None
    assert sa.fit(values, "signals", length=10).codec.length == 10


def test_signals_of_unequal_length_are_refused(tmp_path):
    path = write_ts(tmp_path / "a.ts", *signals(4, 10))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], "1,2,4:b"]))
    rows = [",".join(f"{v:.3f}" for v in one) for one in signals(6, 10)[0][:, 0]]
    (tmp_path / "a.csv").write_text("\n".join([*rows, "1,2,4"]))
    for file in (path, tmp_path / "a.csv"):
        with pytest.raises(InputError, match=r"have 3 to 10 points, .* length=3, or stretch them with resample=10"):
            sa.fit(file, "signals")
        np.testing.assert_array_equal(sa.fit(file, "signals", length=3).codec.stored[-1], [[1, 2, 4]])
        codec = sa.fit(file, "signals", resample=5).codec  # points 0, 0.5, 1, 1.5 and 2 of the short one
        np.testing.assert_allclose(codec.stored[-1], [[1, 1.5, 2, 3, 4]])
        assert "signals have 3 to 10 points, and all were stretched to 5" in codec.notes
    path.write_text("\n".join([*lines[:-1], lines[-1].replace(",", ":", 1)]))
    with pytest.raises(InputError, match="line 10: the signal has 2 channels of 1/9 points; all need 1 channels"):
        sa.fit(path)


@pytest.mark.parametrize(("name", "classes"), [("a.csv", False), ("a.tsv", False), ("a.csv", True)])
def test_the_first_line_of_a_file_may_hold_the_shortest_signal(tmp_path, name, classes):
    path, values = tmp_path / name, signals(6, 10)[0][:, 0].round(3)
    stored = [row[: 7 + i % 4] for i, row in enumerate(values)]
    rows = [["ab"[i % 2]] * classes + [str(x) for x in row] for i, row in enumerate(stored)]
    path.write_text("".join(("\t" if name == "a.tsv" else ",").join(row) + "\n" for row in rows))
    codec = sa.fit(path, "signals", length=7).codec
    np.testing.assert_array_equal(codec.stored[:, 0], values[:, :7])
    assert codec.labels == (tuple("ababab") if classes else None)
    assert sa.fit(path, "signals", resample=12).codec.stored.shape == (6, 1, 12)
    with pytest.raises(InputError, match=r"lines of .* differ in length"):
        sa.fit(path, "signals", length=7, label="last")


def test_object_arrays_hold_signals_in_memory_only(tmp_path):
    array = np.empty(3, dtype=object)
    array[:] = [np.arange(float(n)) ** (n / 4) for n in (5, 9, 7)]
    assert sa.fit(array, "signals", resample=6).codec.stored.shape == (3, 1, 6)
    np.savez(tmp_path / "a.npz", signals=array)
    with pytest.raises(InputError, match="array 'signals' holds Python objects, which are not read"):
        sa.fit(tmp_path / "a.npz", "signals", resample=6)


def test_arrays_of_unequal_length_are_signals():
    arrays = [np.arange(float(n)) ** 2 for n in (5, 9, 7)]
    with pytest.raises(InputError, match=r"have 5 to 9 points, .* length=5, or stretch them with resample=9"):
        sa.fit(arrays, "signals")
    with pytest.raises(InputError, match="all signals are equal"):  # up to their fifth points
        sa.fit(arrays, "signals", length=5)
    arrays[0] = -arrays[0]
    np.testing.assert_array_equal(sa.fit(arrays, "signals", length=5).codec.stored[:, 0], [a[:5] for a in arrays])
    pairs = [np.stack([array, -array]) for array in arrays]
    assert sa.fit(pairs, "signals", resample=6).codec.stored.shape == (3, 2, 6)
    with pytest.raises(InputError, match="signals differ in their number of channels"):
        sa.fit([arrays[0], pairs[1]], "signals")


def test_long_recordings_are_cut_into_windows(tmp_path):
    """Three channels over time beside a clock, and the state of the machine, which changes within one window."""
    values = np.random.default_rng(0).normal(size=(40, 3)).round(3)
    states = ["on"] * 15 + ["off"] * 25
    rows = [f"{i / 4},{x},{y},{z},{state}" for i, ((x, y, z), state) in enumerate(zip(values, states, strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(["seconds,x,y,z,state", *rows]) + "\n")
    codec = sa.fit(tmp_path / "a.csv", "signals", window=6).codec
    assert codec.channels == ("x", "y", "z")
    assert codec.labels == ("on", "on", "off", "off", "off")  # points 12 to 17 are of both, 36 to 39 are too few
    np.testing.assert_array_equal(codec.stored[2], values[18:24].T)
    assert "column 'seconds' counts the points, and is left out" in codec.notes
    assert "40 points were cut into 5 windows of 6; 1 more in which the class changes were left out" in codec.notes
    walks = np.random.default_rng(2).normal(size=(60, 40)).cumsum(1)  # many signals, each of which is smooth
    assert sa.fit(walks, "signals", window=20).codec.stored.shape == (120, 1, 20)
    steps = np.random.default_rng(1).normal(0, [9, 1, 5, 1, 9, 1, 5, 1], (200, 8)).cumsum(0)  # of several sensors
    with pytest.raises(InputError, match=r"is 200 signals of 8 points; .* window=N; length=8 reads it like this"):
        sa.fit(steps, "signals")
    assert sa.fit(np.random.default_rng(0).permutation(steps), "signals").codec.length == 8
    np.testing.assert_array_equal(sa.fit(values[:, 0], "signals", window=10).codec.stored[3, 0], values[30:, 0])
    many = sa.fit(values.T.reshape(3, 1, 40), "signals", labels=list("aabbcc"), window=20).codec
    np.testing.assert_array_equal(many.stored[3, 0], values[20:, 1])


def test_files_of_the_ucr_archive_are_signals(tmp_path):
    t = np.arange(30)
    values = np.sin(t / 4 + np.random.default_rng(0).uniform(0, 6, (12, 1)))
    rows = ["\t".join([str(i % 2 + 1), *(f"{x:.4f}" for x in row)]) for i, row in enumerate(values)]
    (tmp_path / "a.tsv").write_text("\n".join(rows) + "\n")
    codec = sa.fit(tmp_path / "a.tsv").codec
    assert codec.labels == ("1", "2") * 6
    np.testing.assert_allclose(codec.stored[:, 0], values, atol=1e-4)
    shuffled = [
        "\t".join([row.split("\t")[0], *np.random.default_rng(1).permutation(row.split("\t")[1:])]) for row in rows
    ]
    (tmp_path / "b.tsv").write_text("\n".join(shuffled) + "\n")
    assert kind_for(tmp_path / "b.tsv").name == "table"  # points in no order


def test_channels_that_stand_last_are_noticed():
    t, phases = np.arange(40), np.random.default_rng(0).uniform(0, 6, (8, 12, 1))
    values = np.sin(t / 5 + phases)
    assert not any("swap" in note for note in sa.fit(values, "signals").codec.notes)
    assert any("swap its last two axes" in note for note in sa.fit(values.swapaxes(1, 2), "signals").codec.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@problemName x\n1,2,3:a", "line 2: values come before @data"),
        ("@classLabel true a b\n@data\n1,2,3:a\n1,2,4:c", "line 4: class 'c' is not one of @classLabel: a, b"),
        ("@classLabel false\n@data\n1,2,3:a", "line 3: a value is not a number"),
        ("@data\n1,2,3:a", r"line 2: a value is not a number. If it ends in a class, write @classLabel true and all"),
        ("@classLabel false\n@data\n1,2,3:a", r"a value is not a number. Write @data"),
        ("@\n@data\n", "has no signals. Write @data"),
        ("@timeStamps true\n@data\n(0,1),(1,2)", "signals have time stamps, which are not read"),
        ("@data\n1,?,3\n1,2,4", "signal 1 has nan at point 2"),
    ],
)
def test_ts_files_that_cannot_be_used(tmp_path, text, message):
    (tmp_path / "a.ts").write_text(text)
    with pytest.raises(InputError, match=message):
        sa.fit(tmp_path / "a.ts")


def test_wav_files_that_do_not_fit_together(tmp_path):
    for name, values, rate, message in (
        ("rate", [[1, 2, 3, 4]], 9000, "has 9000 points per second, and a.wav 8000; all files must have one rate"),
        ("stereo", [[1, 2, 3, 4], [1, 2, 3, 4]], 8000, "has 2 channels, and a.wav 1; mono and stereo files cannot be"),
        (
            "short",
            [[1, 2, 3]],
            8000,
            r"signals have 3 to 4 points, .*\. Cut them to their first points with length=3\.",
        ),
    ):
        write_wav(tmp_path / name / "a.wav", [[1, 2, 3, 4]])
        write_wav(tmp_path / name / "b.wav", values, rate)
        with pytest.raises(InputError, match=message):
            sa.fit(tmp_path / name)
    b = tmp_path / "rate" / "b.wav"
    for content, message in (
        (b"RIFF", r"cannot be read as PCM WAV \(it is truncated\): convert it to 16-bit PCM, or remove it"),
        (b"ID3 of another format", r"cannot be read as PCM WAV \(it is damaged or no WAV file\)"),
        (b"RIFF\4\0\0\0WAVE", r"cannot be read as PCM WAV \(it is damaged or no WAV file\)"),
        (b.read_bytes()[:20] + b"\6\0" + b.read_bytes()[22:], "its values are compressed or floating-point numbers"),
        (b.read_bytes()[:24] + bytes(4) + b.read_bytes()[28:], "has 16 bits per point and 0 points per second"),
    ):
        b.write_bytes(content)
        with pytest.raises(InputError, match=message):
            sa.fit(tmp_path / "rate")
    rng = np.random.default_rng(0)
    for i in range(3):
        write_wav(tmp_path / "cut" / f"{i}.wav", rng.integers(-99, 99, (1, 20 - i)))
    codec = sa.fit(tmp_path / "cut").codec
    assert codec.length == 18
    assert codec.notes == ("signals have 18 to 20 points, and all were cut to their first 18",)
    with pytest.raises(InputError, match="format wav needs signals from WAV files"):
        sa.fit(signals()[0], "signals", **SETTING).write(tmp_path / "new", 3)


# Draws


def test_draws_stay_within_their_class_and_in_stored_proportions():
    """The classes of 24 draws from 24 signals are counted exactly; each looks like its own class."""
    values, labels = signals(24)
    labels = np.array(labels)
    synth = sa.fit(values, "signals", labels=labels, **SETTING)
    batches = list(synth.batches(48, 0))
    own = labels[np.concatenate([batch.source for batch in batches])]
    assert (own == "a").sum() == 24
    new = np.concatenate([batch.items for batch in batches])
    means = {name: values[labels == name].mean(0) for name in "ab"}
    away = {name: np.square(new - means[name]).sum((1, 2)) for name in "ab"}
    assert (np.where(away["a"] < away["b"], "a", "b") == own).all()
    only = synth.subset("b")
    assert set(labels[np.concatenate([batch.source for batch in only.batches(10, 0)])]) == {"b"}


def test_halves_of_the_signals_keep_their_classes():
    values, labels = signals(24)
    synth = sa.fit(values, "signals", labels=labels)
    half = synth.refit(np.arange(0, 24, 3))
    assert half.codec.labels == labels[::3]
    assert synth.codec.refit(values + 1).labels is None
    with pytest.raises(InputError, match="nothing to vary"):
        synth.codec.refit(values[:1])


def test_whole_and_positive_numbers_stay_so(tmp_path):
    counts = np.rint(20 * np.abs(signals(20)[0])).astype(np.int32)
    synth = sa.fit(counts, "signals", **SETTING)
    new = synth.sample(20, rng=0)
    assert (new == np.rint(new)).all()
    assert new.min() == 0
    assert "all values are integers, and so are those of new signals" in synth.notes
    synth.write(tmp_path / "new.csv", 3, rng=0)
    assert "." not in (tmp_path / "new.csv").read_text().splitlines()[1]
    assert sa.fit(counts - 5, "signals", **SETTING).sample(20, rng=0).min() < 0


# Conditions


@pytest.mark.parametrize("generator", ["windows", "hopfield"])
def test_stretches_of_time_come_back_exactly(generator):
    values, labels = signals(24, channels=2)
    synth = sa.fit(values, "signals", generator=generator, labels=labels, channels=["x", "y"])
    past = synth.condition({(0, 20): "3"}).sample(5, rng=0)
    if generator == "windows":
        assert (past[:, :, :20] == values[2, :, :20]).all()
        assert past[:, :, 25:].std(0).min() > 1e-3
    some = synth.condition({("y", 30): 0.5, ("x", (40, 43)): [0.1, np.nan, 0.3], 5: [0.0, 1.0]}).sample(4, rng=0)
    assert (some[:, 1, 30] == 0.5).all()
    assert (some[:, 0, [40, 42]] == [0.1, 0.3]).all()
    assert (some[:, :, 5] == [0.0, 1.0]).all()
    assert np.ptp(some[:, 0, 41]) > 0


def test_values_of_a_condition_may_be_as_long_as_a_signal():
    values, _ = signals(channels=2)
    codec = sa.fit(values, "signals", channels=["x", "y"]).codec
    for condition in ({(3, 7): values[2]}, {("x", (3, 7)): values[2, 0], ("y", (3, 7)): values[2, 1]}):
        positions, found = codec.condition(condition).observation
        np.testing.assert_array_equal(positions, np.arange(6, 14))
        np.testing.assert_array_equal(found, values[2, :, 3:7].T.ravel())


def test_a_forecast_has_the_class_of_its_past():
    values, labels = signals(24)
    given = sa.fit(values, "signals", labels=labels, **SETTING).condition({(0, 40): values[1, 0, :40]})
    source = np.concatenate([batch.source for batch in given.batches(40, 0)])
    assert {labels[k] for k in source} == {labels[1]}
    new = given.sample(40, rng=0)
    assert np.abs(new[:, 0, 40:].mean(0) - values[1, 0, 40:]).max() < 0.3  # classes differ by 1 there


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({("q", 3): 1.0}, "no channel is called 'q'; there are x, y"),
        ({60: 1.0}, "points must lie within 0 to 59; got 60"),
        ({(5, 5): 1.0}, r"points must lie within 0 to 59; got \(5, 5\)"),
        ({(0, 9): "nobody"}, "no stored signal has the id 'nobody'"),
        ({(0, 9): [1.0, 2.0]}, r"must be a number, an array of shape \(2, 9\), or one as long as a signal"),
        ({3: np.inf}, "values must be finite; got infinity"),
        ({3: np.nan}, "every value of the conditions is NaN"),
        ({3: 1.0, ("x", 3): 2.0}, "contradicts another condition on the same point"),
        ({"x": 1.0}, "must be a point t, a stretch"),
        ({3: object()}, "values must be numbers or the id of a signal"),
    ],
)
def test_impossible_conditions(condition, message):
    synth = sa.fit(signals(channels=2)[0], "signals", channels=["x", "y"])
    with pytest.raises(InputError, match=message):
        synth.condition(condition)


@pytest.mark.parametrize(
    ("channels", "hint"),
    [
        (["hip", "knee", "toe"], "there are hip, knee, toe."),
        (["hip", "knee", "toe", "arm"], "there are hip, knee, toe and others."),
        (["xyz", "w1", "w2", "xy", "xyzw"], "did you mean xyz or xyzw or xy?"),
    ],
)
def test_unknown_channels_are_followed_by_known_ones(channels, hint):
    codec = sa.fit(signals(channels=len(channels))[0], "signals", channels=channels).codec
    with pytest.raises(InputError) as caught:
        codec.condition({("xyzz", 3): 1.0})
    assert str(caught.value).endswith(f"no channel is called 'xyzz'; {hint}")


# Measures


def test_distances_of_spectra_and_autocorrelations():
    rng = np.random.default_rng(0)
    one, two, walk = (
        rng.normal(size=(200, 1, 64)),
        rng.normal(size=(200, 1, 64)),
        rng.normal(size=(200, 1, 64)).cumsum(2),
    )
    assert spectral_distance(one, one) == autocorrelation_distance(one, one) == 0
    # log S of 200 draws has the standard error 1/√200 = 0.07: differences of two have the mean 0.08.
    assert 0.05 < spectral_distance(one, two) < 0.12
    assert spectral_distance(walk, one) > 1
    assert spectral_distance(2 * one, one) == pytest.approx(np.log(4), abs=1e-4)
    assert autocorrelation_distance(one, two) < 0.02 < 0.2 < autocorrelation_distance(walk, one)
    flat = np.concatenate([one, np.ones_like(one)], axis=1)  # a channel that never varies has no spectrum
    assert spectral_distance(flat, flat) == autocorrelation_distance(flat, flat) == 0
    assert spectral_distance(np.concatenate([2 * one, np.ones_like(one)], axis=1), flat) == pytest.approx(
        np.log(4) / 2, abs=1e-4
    )


def test_autocorrelations_are_compared_up_to_forty_lags():
    rng = np.random.default_rng(0)
    new, stored = (rng.normal(size=(3, 2, 50)).cumsum(2) for _ in range(2))

    def correlations(x, lags):
        x = x - x.mean(2, keepdims=True)
        return np.array(
            [[sum(a[:-lag] @ a[lag:] for a in x[:, c]) / (x[:, c] ** 2).sum() for c in range(2)] for lag in lags]
        )

    for points, lags in ((50, range(1, 41)), (20, range(1, 20))):
        some = new[:, :, :points], stored[:, :, :points]
        expected = np.abs(correlations(some[0], lags) - correlations(some[1], lags)).mean()
        assert autocorrelation_distance(*some) == pytest.approx(expected, rel=1e-12)


def test_measures_of_new_signals_beside_stored_ones():
    """Half as large and as rough; half of class "a" and none of class "b" where the stored ones have equal shares."""
    values, labels = signals(24, 61)
    codec = sa.fit(0.1 * values, "signals", labels=labels).codec
    center = codec.stored.mean(0)
    new = np.repeat(center + (codec.stored - center)[::2] / 2, 2, axis=0)
    new[0] = codec.stored[0]
    found = {one.name: one for one in KIND.measures.compare(codec, new).measures}
    ideals = {"amplitude": 1, "roughness": 1, "spectral distance": 0, "autocorrelation distance": 0}
    assert {name: one.ideal for name, one in found.items()} == ideals | {"exact copies": 0, "class shares": 0}
    amplitude = np.sqrt((new.std(0) ** 2).mean()) / np.sqrt((codec.stored.std(0) ** 2).mean())
    assert found["amplitude"].value == pytest.approx(amplitude)
    roughness = np.abs(new[:, :, 1:] - new[:, :, :-1]).mean() / np.abs(np.diff(codec.stored, axis=2)).mean()
    assert found["roughness"].value == pytest.approx(roughness)
    assert found["exact copies"].value == pytest.approx(1 / 24)
    assert found["class shares"].value == pytest.approx(0.5)
    assert KIND.measures.key.name in found


def test_thirds_of_channels_are_compared():
    values, _ = signals(24, 61, 2)
    codec = sa.fit(values, "signals", channels=["x", "y"]).codec
    new = values[::2]
    parts = KIND.measures.compare(codec, new).parts
    assert [part.name for part in parts[2:4]] == ["channel x, last third", "channel y, first third"]
    x, y = parts[2].values(), parts[3].values()
    np.testing.assert_allclose(x.stored, values[:, 0, 41:].mean(1))  # pieces of 21, 20 and 20 points
    np.testing.assert_allclose(x.new, new[:, 0, 41:].mean(1))
    np.testing.assert_allclose(y.stored, values[:, 1, :21].mean(1))


def test_new_signals_of_another_shape_are_refused(tmp_path):
    values, _ = signals()
    codec = sa.fit(values, "signals").codec
    np.save(tmp_path / "new.npy", values[:4])
    np.testing.assert_array_equal(KIND.read_new(codec, tmp_path / "new.npy"), values[:4])
    np.save(tmp_path / "short.npy", values[:4, :, :50])
    with pytest.raises(InputError, match="1 channels of 50 points, and the stored ones 1 of 60"):
        KIND.read_new(codec, tmp_path / "short.npy")
    np.save(tmp_path / "nan.npy", np.where(values == values[0, 0, 0], np.nan, values))
    with pytest.raises(InputError, match="signals must be finite numbers; got NaN or infinity"):
        KIND.read_new(codec, tmp_path / "nan.npy")


# The command line and the report


@pytest.mark.usefixtures("unrendered_figures")
def test_signals_from_file_to_file_and_report(tmp_path):
    path = write_ts(tmp_path / "beats.ts")
    out = tmp_path / "new.ts"
    works("sample", path, "-n", 12, "--condition", "1:20=3", "-o", out)
    new, stored = sa.fit(out).codec.stored, sa.fit(path).codec.stored
    assert (new[:, 0, :20] == stored[2, 0, :20]).all()
    facts = json.loads((tmp_path / "new.ts.json").read_text())
    assert facts["kind"] == "signals"
    assert sum(one["share"] for one in facts["classes"].values()) == 1
    np.save(tmp_path / "signals.npy", stored[:, 0])
    works("sample", tmp_path / "signals.npy", "--kind", "signals", "-n", 5, "-o", tmp_path / "new.csv")
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 6
    works("report", path, "-n", 20, "--quick", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<polyline") >= 2 * 6
    assert "spectral distance" in page


def test_conditions_of_the_command_line(tmp_path):
    path = write_ts(tmp_path / "beats.ts", *signals(channels=2))
    codec = sa.fit(path).codec
    parsed = KIND.parse_condition(codec, ["12=0.5", "2@1:3=4", "5:6=0.25"])
    assert parsed == {11: 0.5, ("2", (0, 3)): "4", (4, 6): 0.25}
    np.save(tmp_path / "one.npy", codec.stored[:1])
    [(key, value)] = KIND.parse_condition(codec, [f"1:9={tmp_path / 'one.npy'}"]).items()
    assert key == (0, 9)
    np.testing.assert_array_equal(value, codec.stored[0])
    for text in ("0=1", "3:2=1", "61=1", "1:61=1"):
        with pytest.raises(InputError, match="points must lie within 1 to 60"):
            KIND.parse_condition(codec, [text])
    for text, message in (
        ("0=1", "points must lie within 1 to 60"),
        ("3:2=1", "points must lie within 1 to 60"),
        ("3", "is not understood"),
        ("3=x", "must be a number; got 'x'"),
        ("3:4=x", "must be the id of a stored signal, a file with one signal, or a number"),
        (f"1:9={path}", "must hold one signal of 60 or of 9 points; got 24 of 60 points"),
    ):
        assert message in refused("sample", path, "--condition", text, "-o", tmp_path / "new.ts")


def test_the_gallery_escapes_names_and_draws_long_signals_by_their_extremes():
    values = signals(4, 3000, 6)[0]
    values[0, 0, 1234] = 50.0
    codec = sa.fit(values, "signals", channels=["<b>", *"abcde"]).codec
    shown = GalleryItems(values[:1], np.array([0]), np.array([1]), np.array([0.5]), {})
    page = str(KIND.display.gallery(codec, shown))
    assert "channel &lt;b&gt;" in page
    assert "<b>:" not in page
    assert "The first 4 channels of 6." in page
    lines = re.findall(r'<polyline class="new" points="([^"]*)"', page)
    assert len(lines) == 4
    assert all(390 < len(line.split()) <= 400 for line in lines)
    assert any(point.endswith(",3.0") for point in lines[0].split())  # the top of the plot, where the extreme is


def drawn_lines(page):
    """Width and height of the plots of a page, and points of each line, new and old in turn: (n, 2)."""
    [size] = set(re.findall(r'viewBox="0 0 (\d+) (\d+)"', page))
    lines = re.findall(r'<polyline class="(\w+)" points="([^"]*)"', page)
    points = {"old": [], "new": []}
    for which, line in lines:
        points[which].append(np.array([list(map(float, point.split(","))) for point in line.split()]))
    return tuple(map(int, size)), points


def test_the_gallery_draws_both_lines_on_one_scale():
    stored = np.array([[[0.0, 1.0, 2.0, 4.0], [3.0, 3.0, 3.0, 3.0]], [[1.0, 0.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0]]])
    codec = sa.fit(stored, "signals", labels=["a", "a"], ids=["first", "second"]).codec
    new = np.array([[[0.0, 8.0, 4.0, 6.0], [3.0, 3.0, 3.0, 3.0]]])
    shown = GalleryItems(new, np.array([0]), np.array([0]), np.array([0.5]), {})
    page = str(KIND.display.gallery(codec, shown))
    (width, height), lines = drawn_lines(page)
    times, inside = np.array([0, 1, 2, 3]) / 3, height - 6
    for which, values in (("old", stored[0, 0]), ("new", new[0, 0])):
        np.testing.assert_allclose(lines[which][0][:, 0], 1 + (width - 2) * times, atol=0.051)
        np.testing.assert_allclose(lines[which][0][:, 1], 3 + inside * (1 - values / 8), atol=0.051)
    assert (lines["new"][1][:, 1] == 3).all()  # a channel that does not vary is a straight line
    assert "channel 1: 0 to 8" in page
    assert "nearest: " in page
    assert page.count('class="item"') == 1
    assert page.count('class="key new"') == page.count('class="key old"') == 1
    assert "The first" not in page


@pytest.mark.parametrize(("channels", "about"), [(4, ""), (5, "The first 4 channels of 5.")])
def test_the_gallery_says_where_channels_are_left_out(channels, about):
    values = signals(4, 20, channels)[0]
    codec = sa.fit(values, "signals").codec
    page = str(KIND.display.gallery(codec, GalleryItems(values[:1], np.array([0]), np.array([1]), np.array([0.5]), {})))
    assert page.count("<figure") == 4
    assert ("The first" in page) == bool(about)
    assert about in page


def test_the_density_of_signals_of_one_channel():
    signals = np.sin(np.linspace(0, 6, 30) + np.random.default_rng(0).normal(size=(20, 1)))
    synth = sa.fit(signals, "signals")
    new = synth.sample(3, rng=0)
    np.testing.assert_array_equal(synth.log_density(new), synth.log_density(new[:, None]))
    with pytest.raises(InputError, match=r"must be an array of shape \(3, 1, 30\); got \(3, 29\)"):
        synth.log_density(new[:, 1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spacing": -1}, "spacing must be .*; got -1"),
        ({"width": 0.0}, "width must be above 0 and at most 1; got 0. Leave it out to choose it"),
        ({"width": 1.5}, "width must be above 0 and at most 1; got 1.5"),
        ({"pooled": 1.5}, "pooled must be at least 0 and at most 1; got 1.5"),
    ],
)
def test_settings_of_windows_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        sa.fit(signals()[0], "signals", **options)


def test_beta_and_novelty_of_the_generator_hopfield():
    values = signals()[0]
    assert sa.fit(values, "signals", generator="hopfield", beta=7.0).describe().temperature.beta == 7.0
    given = sa.fit(values, "signals", generator="hopfield", novelty=0.1)
    assert given.predicted_novelty() == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("extension", [".npy", ".npz"])
def test_arrays_cannot_be_written_as_a_stream(tmp_path, extension):
    path = write_ts(tmp_path / "beats.ts", *signals(8, 12))
    text = refused("sample", path, "--stream", "-n", 3, "-o", tmp_path / f"new{extension}")
    assert f"--stream cannot write {extension[1:]}, which holds all examples" in text


def test_npz_files_have_classes_only_where_signals_have_some(tmp_path):
    values, labels = signals()
    for given, names in (
        (None, {"signals", "channels", "settings"}),
        (labels, {"signals", "channels", "settings", "labels"}),
    ):
        synth = sa.fit(values, "signals", labels=given).with_generator("windows", **SETTING)
        synth.write(tmp_path / "new.npz", 3, rng=0, replace=True)
        with np.load(tmp_path / "new.npz") as file:
            assert set(file) == names


@pytest.mark.parametrize("name", ["slide", "shift"])
def test_signals_move_by_less_than_their_length(name):
    with pytest.raises(InputError, match=f"{name} must be less than the 10 points of a signal; got 12"):
        sa.fit(np.random.default_rng(0).normal(size=(20, 10)), "signals", **{name: 12}).sample(1)


def test_whole_numbers_too_large_for_integers_are_written_as_they_are(tmp_path):
    signals = np.random.default_rng(0).integers(1, 9, (20, 6)) * 1e20
    np.savetxt(tmp_path / "s.csv", signals, delimiter=",")
    synth = sa.fit(tmp_path / "s.csv", "signals")
    synth.write(tmp_path / "new.csv", 5, rng=0)
    new = np.genfromtxt(tmp_path / "new.csv", delimiter=",", skip_header=1)
    assert new.min() >= 0  # not the least integer
    assert new.max() > 1e20


def test_options_of_deformations_are_checked():
    values, _ = signals(8, 20)
    assert sa.fit(values, "signals", scale=0.5, neighbors=2).generator.describe().resolved == {"scale": 0.5}
    for options, message in (
        ({"scale": 4.0}, "scale must be 0 to 3; got 4"),
        ({"scale": -1}, "scale must be a finite number, zero or more"),
        ({"neighbors": 0}, "neighbors must be at least 1; got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            sa.fit(values, "signals", **options)


@pytest.mark.parametrize(("targets", "labels"), [("21.5 3 8.25", None), ("1 1 2 2", ("1", "1", "2", "2"))])
def test_numbers_to_predict_are_no_classes_of_signals(tmp_path, targets, labels):
    lines = "".join(f"{i},2,{i + 3},1:{target}\n" for i, target in enumerate(targets.split()))
    (tmp_path / "fat.ts").write_text(f"@problemName fat\n@targetLabel true\n@data\n{lines}")
    codec = sa.fit(tmp_path / "fat.ts").codec
    assert codec.labels == labels
    assert any("@targetLabel" in note for note in codec.notes) is (labels is None)
