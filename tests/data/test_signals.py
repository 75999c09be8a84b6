"""Signals: files of every format, what is refused, conditions on time, draws within classes, the command line."""

import json
import re
import wave

import numpy as np
import pytest
from command_runner import refused, works
from made_items import signals, write_pictures, write_ts

import stochattn as sa
from stochattn.data import InputError
from stochattn.data.gallery import GalleryItems
from stochattn.data.registry import kind_for
from stochattn.data.signals import KIND
from stochattn.data.signals.output import autocorrelation_distance, spectral_distance
from stochattn.data.summary import read_summary

SETTING = {"width": 0.5, "window": 15, "pooled": 0.0, "roughness": 0.1, "shift": 0, "slide": 0}  # not searched for


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
        write_wav(folder / "ab"[i % 2] / f"{i}.wav", one, width=width)
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


@pytest.mark.parametrize("channels", [1, 3])
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


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_folders_are_read_and_written(tmp_path, width, channels):
    folder, values = write_wavs(tmp_path / "calls", width=width, channels=channels)
    synth = sa.fit(folder).with_generator("windows", **SETTING)
    assert synth.kind is KIND
    np.testing.assert_array_equal(synth.codec.stored, values)
    assert synth.codec.labels == ("a",) * 3 + ("b",) * 3
    assert synth.codec.channels == (("1",) if channels == 1 else ("left", "right"))
    synth.write(tmp_path / "new", 8, rng=0)
    again = sa.fit(tmp_path / "new")
    np.testing.assert_array_equal(again.codec.stored, synth.sample_items(8, 0))
    assert (again.codec.rate, again.codec.bits) == (8000, 8 * width)
    source = np.concatenate([batch.source for batch in synth.batches(8, 0)])
    assert again.codec.labels == tuple(synth.codec.labels[k] for k in source)


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
        (lambda x: np.repeat(x[:1], 5, 0), {}, "the signals are all alike, and there is nothing to vary"),
        (lambda x: np.tile(x.swapaxes(1, 2), (1, 5, 1)), {}, "has 100 channels of 1 points; points come last"),
        (lambda x: np.tile(x[:, 0].T, (3, 1))[:, :4], {}, "is 60 signals of 4 points; each row is a signal. Transpose"),
        (lambda x: x[:, :, :2], {}, "signals have 2 points, and at least 3 are needed"),
        (lambda x: x[0, 0], {}, r"must be an array .n, points. or .n, channels, points., none of them zero; got shape"),
        (lambda x: x, {"labels": list("aaaabbbc")}, "class 'c' has one signal, and new ones are drawn within classes"),
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
    path.write_text("\n".join([*lines[:-1], "1,2,3:b"]))
    with pytest.raises(InputError, match="line 10: the signal has 1 channels of 3 points and the first one 1 channels"):
        sa.fit(path)
    rows = [",".join(f"{v:.3f}" for v in one) for one in signals(6, 10)[0][:, 0]]
    (tmp_path / "a.csv").write_text("\n".join([*rows, "0.125,0.25"]))
    with pytest.raises(
        InputError, match=r"line 7, .*the signal has 2 points and others have 10; signals must be equally"
    ):
        sa.fit(tmp_path / "a.csv", "signals")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@problemName x\n1,2,3:a", "line 2: values come before @data"),
        ("@classLabel true a b\n@data\n1,2,3:a\n1,2,4:c", "line 4: class 'c' is not one of @classLabel: a, b"),
        ("@classLabel false\n@data\n1,2,3:a", "line 3: a value is not a number"),
        ("@data\n", "has no signals. Write @data"),
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
        ("stereo", [[1, 2, 3, 4], [1, 2, 3, 4]], 8000, "has 2 channels, and a.wav 1; mono and stereo files do not mix"),
        ("short", [[1, 2, 3]], 8000, "has 3 points, and the longest file 4; lengths may differ by a tenth"),
    ):
        write_wav(tmp_path / name / "a.wav", [[1, 2, 3, 4]])
        write_wav(tmp_path / name / "b.wav", values, rate)
        with pytest.raises(InputError, match=message):
            sa.fit(tmp_path / name)
    (tmp_path / "rate" / "b.wav").write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"cannot be read as PCM WAV .* convert it to 16-bit PCM, or remove it"):
        sa.fit(tmp_path / "rate")
    rng = np.random.default_rng(0)
    for i in range(3):
        write_wav(tmp_path / "cut" / f"{i}.wav", rng.integers(-99, 99, (1, 20 - i)))
    codec = sa.fit(tmp_path / "cut").codec
    assert codec.length == 18
    assert codec.notes == ("files have 18 to 20 points, and all were cut to their first 18",)
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
    assert "all values are whole numbers, and so are those of new signals" in synth.notes
    synth.write(tmp_path / "new.csv", 3, rng=0)
    assert "." not in (tmp_path / "new.csv").read_text().splitlines()[1]
    assert sa.fit(counts - 5, "signals", **SETTING).sample(20, rng=0).min() < 0


def test_many_signals_take_a_few_seconds():
    """200 signals of 500 points and 3 channels: some 2 s of processor time, and 10 on a busy machine."""
    from time import process_time

    values, labels = signals(200, 500, 3)
    start = process_time()
    assert sa.fit(values, "signals", labels=labels).sample(200, rng=0).shape == (200, 3, 500)
    assert process_time() - start < 10


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
        ({3: np.nan}, "the conditions name no value"),
        ({3: 1.0, ("x", 3): 2.0}, "contradicts another one of the same point"),
        ({"x": 1.0}, "must be a point t, a stretch"),
        ({3: object()}, "values must be numbers or the id of a signal"),
    ],
)
def test_impossible_conditions(condition, message):
    synth = sa.fit(signals(channels=2)[0], "signals", channels=["x", "y"])
    with pytest.raises(InputError, match=message):
        synth.condition(condition)


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
    page = str(KIND.gallery(codec, shown))
    assert "channel &lt;b&gt;" in page
    assert "<b>:" not in page
    assert "The first 4 channels of 6." in page
    lines = re.findall(r'<polyline class="new" points="([^"]*)"', page)
    assert len(lines) == 4
    assert all(len(line.split()) <= 400 for line in lines)
    assert any(point.endswith(",3.0") for point in lines[0].split())  # the top of the plot, where the extreme is


def test_the_density_of_signals_of_one_channel():
    signals = np.sin(np.linspace(0, 6, 30) + np.random.default_rng(0).normal(size=(20, 1)))
    synth = sa.fit(signals, "signals")
    new = synth.sample(3, rng=0)
    np.testing.assert_array_equal(synth.log_density(new), synth.log_density(new[:, None]))
    with pytest.raises(InputError, match=r"must be an array of shape \(3, 1, 30\); got \(3, 29\)"):
        synth.log_density(new[:, 1:])


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
