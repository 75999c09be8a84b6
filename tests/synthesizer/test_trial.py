"""The trial by which "auto" chooses a generator, on data for which it is known what must pass."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_sample_image

import stochattn as sa
from command_runner import works
from stochattn.kinds import Description
from stochattn.kinds.summary import RunSummary, TrialRecord
from stochattn.synthesizer.trial import CONVINCING, FACTORS, turn_knob

pytestmark = pytest.mark.usefixtures("large_forests")


def sines(n=60, T=32):
    """Smooth signals of a linear family: moves in time make them rough, and p_beta does not."""
    rng = np.random.default_rng(0)
    return np.sin(2 * np.pi * (np.arange(T) / T + rng.uniform(0, 0.05, (n, 1)))) * rng.uniform(0.8, 1.2, (n, 1))


def square_waves(n=40, T=32):
    """Oscillation of any frequency between hard bounds, which every mixture of signals leaves."""
    rng = np.random.default_rng(0)
    phases = rng.uniform(0.03, 0.25, (n, 1)) * np.arange(T) + rng.random((n, 1))
    return np.sign(np.sin(2 * np.pi * phases)) + 0.01 * rng.normal(size=(n, T))


def normal_rows(n=60):
    return np.random.default_rng(0).multivariate_normal([0, 0, 0], np.eye(3) + 0.5, n)


@pytest.fixture(scope="module")
def refused():
    return sa.fit(square_waves(), kind="signals")


@pytest.fixture(scope="module")
def smooth():
    return sa.fit(sines(), kind="signals")


def test_a_default_that_passes_is_kept_bit_by_bit_and_nothing_else_is_fitted():
    tried, untried = sa.fit(normal_rows(), "table"), sa.fit(normal_rows(), "table", trial=False)
    np.testing.assert_array_equal(tried.sample(20, rng=0), untried.sample(20, rng=0))
    record = tried.trial.record
    assert [attempt.generator for attempt in record.attempts] == ["covariance"]
    assert record.attempts[0].loss <= 0.5
    assert tried.describe() == untried.describe()
    assert untried.trial is None


def test_another_generator_is_chosen_where_the_default_fails(smooth):
    synth = smooth
    losses = {attempt.generator: attempt.loss for attempt in synth.trial.record.attempts}
    name = synth.choice.name
    assert name in ("hopfield", "gaussian")  # both are linear
    assert name == min(losses, key=losses.get)
    assert losses["deformations"] > CONVINCING
    assert f"generator={name!r}" in repr(synth)
    assert synth.describe().name == name
    assert synth.describe().notes[0].startswith(f"generator {name} was chosen on held-out signals")
    halves = synth.refit(np.arange(30))
    assert (halves.choice, halves.trial) == (synth.choice, None)  # evaluation begins no new trial


def test_where_nothing_passes_the_first_line_says_so(refused, tmp_path):
    assert refused.choice.name == "rescaled"
    warning = refused.notes[0]
    assert warning == refused.describe().notes[0]
    assert warning.startswith("None of the generators produces convincing signals from these 40")
    summary = refused.write(tmp_path / "new.npz", 5, rng=0)
    assert summary.notes[0] == warning
    assert RunSummary.from_json(summary.to_json()).trial == summary.trial == refused.trial.record
    assert {"deformations", "windows", "hopfield", "gaussian", "rescaled"} == {
        a.generator for a in summary.trial.attempts
    }
    np.savez(tmp_path / "signals.npz", signals=square_waves())
    said = works("sample", tmp_path / "signals.npz", "-n", 5, "-o", tmp_path / "again.npz").stderr
    assert said.splitlines()[0] == warning.replace("pass trial=False", "pass --no-trial")
    assert "None of" not in works("sample", tmp_path / "signals.npz", "--no-trial", "-o", tmp_path / "b.npz").stderr


@pytest.mark.slow
def test_where_none_passes_though_one_is_not_far_off_the_first_line_says_so():
    walks = np.random.default_rng(0).normal(size=(60, 20, 16)).cumsum(-1)  # too many dimensions for 60 of them
    synth = sa.fit(walks, kind="signals")
    first, second = synth.trial.record.attempts[:2]
    assert first.near_copies > second.near_copies + 0.2  # the knob is turned away from copies, to its end
    assert 0.5 < min(attempt.loss for attempt in synth.trial.record.attempts) < CONVINCING
    assert synth.choice.name == "deformations"
    warning, note = synth.describe().notes[:2]
    assert synth.notes[0] == warning == synth.trial.record.warning
    assert warning.startswith("None of the generators passes a trial on held-out signals: with deformations (scale=")
    assert f"with deformations {first.near_copies:.0%} of new signals are as near to a stored one as 5%" in note


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_default_is_not_replaced_because_correlations_of_few_rows_vary(seed):
    rows = np.random.default_rng(seed).normal(size=(100, 2))
    record = sa.fit(rows, "table").trial.record
    assert [attempt.generator for attempt in record.attempts] == ["covariance"]
    assert record.attempts[0].loss > 0.5  # which is chance: halves of 50 rows differ by as much
    assert record.notes == ()


@pytest.mark.slow
def test_woven_noise_between_patches_of_a_photograph_is_noticed():
    photograph = load_sample_image("china.jpg")[:416, :640]
    patches = photograph.reshape(13, 32, 20, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)[::3]
    record = sa.fit(patches).trial.record
    first = record.attempts[0]
    assert first.two_sample > 0.8  # 87 patches are few, but half of as many would not tell
    assert first.loss > 0.5
    assert (record.generator, record.options) != (first.generator, first.options)


def test_conditions_subsets_and_files_share_one_trial(refused, tmp_path):
    for other in (refused.subset(np.arange(10)), refused.weight(3, [0]), refused.condition({3: 0.5})):
        assert other.trial is refused.trial
    refused.save(tmp_path / "a.synth")
    again = sa.load(tmp_path / "a.synth")
    assert again.trial.is_done
    assert again.trial.record == refused.trial.record
    assert again.notes == refused.notes
    np.testing.assert_array_equal(again.sample(4, rng=1), refused.sample(4, rng=1))
    assert TrialRecord.from_plain(json.loads(json.dumps(asdict(refused.trial.record)))) == refused.trial.record


def test_any_number_of_jobs_makes_the_same_trial(smooth):
    synth = sa.fit(sines(), kind="signals", n_jobs=2)
    assert "generator='deformations'" in repr(synth)  # which begins no trial
    assert synth.trial.record == smooth.trial.record


@pytest.mark.parametrize("asked", [{"generator": "hopfield"}, {"scale": 0.5}, {"trial": False}])
def test_who_chooses_a_generator_or_its_options_gets_them(asked):
    assert sa.fit(square_waves(), kind="signals", **asked).trial is None
    assert sa.fit(square_waves(), kind="signals").with_generator("windows").trial is None


def test_few_items_are_not_tried_and_unlike_pictures_are_refused():
    few = sa.fit(normal_rows(39), "table")
    assert few.choice.name == "covariance"
    assert few.trial.record.attempts == ()
    assert "this needs 40 stored ones, and there are 39" in few.notes[-1]
    waves = np.random.default_rng(3).uniform([[0], [0.02], [0]], [[3], [0.12], [6]], (3, 9))
    angle, frequency, phase = waves[:, :, None, None]
    y, x = np.mgrid[:36, :36]
    gratings = np.sin(2 * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)) + phase)
    unlike = sa.fit((128 + 100 * gratings).astype(np.uint8))
    assert "no shapes in common" in unlike.notes[0]
    assert unlike.choice.name == "rescaled"


def test_halves_that_cannot_be_fitted_are_named():
    constant_but_for_one = pd.DataFrame({"dose": [1.0] * 60 + [2.0]})
    assert "no generator was tried on held-out rows" in sa.fit(constant_but_for_one).notes[-1]


def test_the_knob_is_turned_towards_recall_or_away_from_it():
    choice = sa.fit(normal_rows(), "table").generator_fit.requested
    about = Description("covariance", "", resolved={"width": (0.4, 0.5, 20), "classes": "pooled"})

    def turned(factor, *, towards_recall):
        return turn_knob(choice, about, factor, towards_recall=towards_recall).options.width

    assert turned(FACTORS[0], towards_recall=True) == (0.2, 0.5, 20)
    assert turned(4.0, towards_recall=False) == (1.0, 0.5, 20)  # the end of the knob
    hopfield = sa.fit(normal_rows(), "table", generator="hopfield")  # whose large beta recalls
    assert turn_knob(hopfield.choice, hopfield.describe(), 2.0, towards_recall=True).options.beta == pytest.approx(
        2 * hopfield.describe().temperature.beta
    )


def test_windows_of_days_are_tried_though_few_of_them_do_not_overlap():
    days = pd.date_range("2020-01-01", periods=600, name="date")
    moves = np.random.default_rng(0).multivariate_normal(np.zeros(3), 1e-4 * (np.eye(3) + 1), 600)
    record = sa.fit(pd.DataFrame(moves, days, columns=list("abc")), values="returns").trial.record
    assert [attempt.generator for attempt in record.attempts] == ["windows"]


def test_a_generator_that_was_declined_stays_so_under_other_options():
    untried = sa.fit(normal_rows(), "table", trial=False)
    assert untried.with_generator().trial is None
    assert untried.with_generator("hopfield").with_generator().trial is not None


def test_a_default_beyond_what_convinces_is_never_kept_where_another_is_less_bad():
    """Square waves in pairs of classes, of which the default makes something else."""
    synth = sa.fit(square_waves(60), "signals", labels=["a", "b"] * 30)
    record = synth.trial.record
    first = record.attempts[0]
    assert first.loss > CONVINCING
    assert (record.generator, dict(record.options)) != (first.generator, dict(first.options))
    assert record.warning


def test_a_damaged_record_is_refused():
    with pytest.raises(ValueError, match="trial"):
        TrialRecord.from_plain({})
