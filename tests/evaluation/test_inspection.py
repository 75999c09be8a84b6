"""Inspection of stored items."""

import json

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from report import made
from stochattn import MemoryBank, temperature
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
    assert str(round_trip_loss(full)) == "nothing: every stored item decodes to itself"
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
