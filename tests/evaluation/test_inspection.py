"""Inspection of stored items."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import stochattn as sa
from report import made
from stochattn import MemoryBank, temperature
from stochattn.core import temperature as probes
from stochattn.core.metrics import cosine_novelty
from stochattn.core.neighbors import have_duplicates
from stochattn.evaluation import inspection
from stochattn.evaluation.inspection import inspect, plot_entropy, round_trip_loss


@pytest.mark.parametrize("kind", made.KINDS)
def test_facts_of_every_kind(kind):
    synth = made.synth(kind)
    found = inspect(synth)
    assert (found.kind, found.K, found.generator) == (kind, synth.codec.K, synth.choice.name)
    assert found.bank.d >= found.bank.rank > 0
    assert [choice.name for choice in found.bank.choices] == ["natural", "inflection", "knee", "leave-one-out"]
    facts = json.loads(json.dumps(found.as_dict()))
    assert {"K", "d", "rank", "norms", "loss", "rules", "curve", "generator", "columns"} <= set(facts)


def test_rules_agree_with_those_of_the_bank():
    synth = made.synth("protein", generator="hopfield", beta=7.0)
    bank = MemoryBank(synth.generator.stored_rows)
    found = inspect(synth)
    assert (found.bank.d, found.bank.rank) == (bank.d, bank.rank)
    for choice in found.bank.choices:
        assert choice.beta == temperature.by_rule(bank, choice.rule)
        assert choice.novelty == temperature.novelty_at(bank, choice.beta)
    curve = found.bank.curve
    assert all(curve.beta[0] < choice.beta < curve.beta[-1] for choice in found.bank.choices)


def test_a_rule_that_fails_says_why():
    frame = pd.DataFrame(np.repeat(np.arange(12.0).reshape(4, 3) ** 2, 3, axis=0), columns=list("abc"))
    found = inspect(sa.fit(frame, "table"))
    natural = found.bank.choices[0]
    assert found.bank.duplicates == 12
    assert "duplicate" in natural.failure
    assert np.isnan(natural.beta)
    assert found.as_dict()["rules"]["natural"] == {"failure": natural.failure}


def test_classes_are_counted():
    synth = made.synth("image")
    assert inspect(synth).classes == dict.fromkeys(sorted(set(synth.codec.labels)), 12)


def test_loss_counts_values_that_change_in_a_round_trip():
    full, cut = (made.synth("protein", generator="hopfield", variance=share) for share in (1.0, 0.3))
    assert str(round_trip_loss(full)) == "nothing: each of the stored items decodes to itself"
    loss = round_trip_loss(cut)
    stored = cut.codec.stored
    embedding = cut.generator.embedding
    rows = embedding.coordinates.stored
    decoded = embedding.arrays(rows * embedding.coordinates.norms[:, None], np.arange(24), np.random.default_rng(0))
    assert loss.values == (decoded == stored).mean()
    assert loss.items == (decoded == stored).all(1).mean()
    assert 0.3 <= loss.variance < 1
    assert f"rows keep {loss.variance:.1%} of the variance" in str(loss)


@pytest.mark.parametrize("kind", made.KINDS)
def test_stored_items_survive_the_default_generators_arrays(kind):
    assert round_trip_loss(made.synth(kind)).values > 0.95


def test_the_entropy_curve_is_written_as_a_picture(tmp_path):
    path = tmp_path / "entropy.png"
    plot_entropy(inspect(made.synth("protein")), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_picture_names_the_curve_and_the_beta_of_each_rule(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: figures.append(figure) or file.write_bytes(b"x"))
    found = inspect(made.synth("protein"))
    plot_entropy(found, tmp_path / "entropy.png")
    (axes,) = figures[0].axes
    curve, ceiling, *betas = axes.get_lines()
    np.testing.assert_array_equal(curve.get_xydata(), np.transpose(found.bank.curve[:2]))
    assert ceiling.get_ydata()[0] == pytest.approx(np.log(24))
    assert [line.get_xdata()[0] for line in betas] == [choice.beta for choice in found.bank.choices]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("inverse temperature beta", "entropy (nats)")
    assert axes.get_title().startswith(f"24 stored, d = {found.bank.d}:")
    names = [text.get_text().partition(":")[0] for text in axes.get_legend().get_texts()]
    assert names == ["attention entropy", *(choice.name for choice in found.bank.choices)]


def test_the_curve_goes_beyond_the_betas_of_all_rules(monkeypatch):
    """And from diffuse to sharp attention, as products with the first stored row vary."""
    synth = made.synth("protein", seed=4, generator="hopfield")
    rows = np.asarray(synth.generator.stored_rows)
    spread = np.ptp(rows @ rows[0])
    for beta, low, high in ((1e-3, 1e-4, 100 / spread), (1e4, 0.1 / spread, 1e5)):
        monkeypatch.setattr(temperature, "by_rule", lambda *_, beta=beta, **__: beta)
        curve = inspect(synth).bank.curve
        assert (curve.beta[0], curve.beta[-1]) == (pytest.approx(low), pytest.approx(high))


def test_a_generator_named_hopfield_must_be_one(monkeypatch):
    synth = made.synth("protein", generator="hopfield")
    monkeypatch.setattr(type(synth.kind), "fit_generator", lambda *_: object())
    with pytest.raises(TypeError, match="the generator 'hopfield' must be a HopfieldGenerator; got object"):
        inspect(synth)


def test_a_row_without_direction_gives_finite_novelty():
    """The first row encodes to zero: it equals the mean of all."""
    X = np.random.default_rng(0).integers(-50, 50, (6, 3)).astype(float)
    frame = pd.DataFrame(np.concatenate([np.zeros((1, 3)), X, -X]), columns=list("abc"))
    for generator in ("covariance", "hopfield"):
        synth = sa.fit(frame, "table", generator=generator)
        found = inspect(synth)
        assert min(found.bank.norms) < 1e-12
        assert all(0 < choice.novelty < 1 for choice in found.bank.choices)
        assert np.isfinite(next(synth.batches(5, 0)).novelty).all()
    assert 0 < synth.predicted_novelty() < 1


def test_a_zero_memory_has_cosine_zero():
    X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    rounded = np.array([[1e-17, -1e-17], [3.0, 0.0], [0.0, 2.0]])
    for beta in (0.5, 50.0):
        expected = temperature.novelty_at(X, beta)
        assert 0 < expected < 1
        assert temperature.novelty_at(rounded, beta) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(cosine_novelty(np.array([[1.0, -1.0], [2.0, 0.0]]), rounded), [1 - 0.5**0.5, 0])


def test_many_rows_take_bounded_memory():
    """60,000 rows: all pairs would take 29 GB, and the draws with all rows 500 MB in one piece."""
    bank = MemoryBank(np.random.default_rng(0).standard_normal((60_000, 2)))
    tracemalloc.start()
    try:
        assert np.isfinite(probes.ProbeDraws(bank, False).distances(3.0)).all()
        assert not have_duplicates(bank.patterns, 1e-9).any()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250e6


def test_a_part_of_many_items_is_checked_and_the_output_says_so(monkeypatch):
    monkeypatch.setattr(inspection, "MAX_PAIRS", 4000)
    monkeypatch.setattr(inspection, "MIN_CHECKED", 10)
    synth = sa.fit(np.random.default_rng(0).standard_normal((200, 3)), "table", generator="hopfield", beta=5.0)
    loss = round_trip_loss(synth)
    assert loss == (1.0, 1.0, 1.0, 20)
    assert str(loss) == "nothing: each of 20 evenly spaced items decodes to itself"
    assert str(loss._replace(items=0.5, values=0.9)).startswith("10.00% of the values (50% of 20 evenly spaced items")


def test_rules_choose_what_a_fit_with_them_chooses():
    """Rows of unequal length with equal weights: with the weights of p_beta, long rows would have nearly all of it."""
    rows = np.random.default_rng(0).normal(size=(30, 3)) * np.linspace(1, 6, 30)[:, None]
    choices = inspect(sa.fit(rows, "table", generator="hopfield")).bank.choices
    for name in ("natural", "leave-one-out"):
        found = next(choice for choice in choices if choice.name == name)
        fitted = sa.fit(rows, "table", generator="hopfield", beta=name)
        assert found.beta == pytest.approx(fitted.describe().temperature.beta, rel=1e-6)
        assert found.novelty == pytest.approx(fitted.predicted_novelty(), rel=1e-3)


def test_parts_of_draws_and_probes_give_what_the_whole_gives(monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 4))
    rules = [temperature.natural, temperature.inflection, temperature.leave_one_out]
    whole = [rule(X) for rule in rules]
    monkeypatch.setattr(probes, "CACHED_PAIRS", 130)
    assert [rule(X) for rule in rules] == whole
    draws = probes.ProbeDraws(MemoryBank(X), False)
    whole = [draws.distances(3.0), draws.novelties(3.0), draws.novelties(None)]
    draws.parts = [slice(0, 1000), slice(1000, 3000), slice(3000, 4096)]
    np.testing.assert_allclose([draws.distances(3.0), draws.novelties(3.0), draws.novelties(None)], whole, rtol=1e-9)
