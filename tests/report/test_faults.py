"""One fault in a file of new items, which checks of all columns together would not see: the verdict names it.

Null: real held-out items pass. Power: each fault is named. The rates over many data sets are in docs/reliability.md.
"""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.evaluation.fidelity import AGREEMENT, DIFFERENCES, PARTS, TRAINING, Relabeling
from stochattn.kinds import Batch, Settings
from stochattn.kinds.registry import read_labels
from stochattn.kinds.tables.kind import KIND
from stochattn.report import judge, measure

K = 120


def people(seed):
    """Rows of two related numbers, a city, a stage and a class, and identifiers of persons."""
    rng = np.random.default_rng(seed)
    height, sex = rng.normal(170, 8, K).round(1), rng.choice(["f", "m"], K)
    columns = {
        "person_id": [f"P{number}" for number in rng.choice(90_000, K, replace=False)],
        "sex": sex,
        "height": height + 10 * (sex == "m"),
        "weight": (height - 100 + rng.normal(0, 6, K)).round(1),
        "age": rng.integers(18, 80, K),
        "city": rng.choice(["Oslo", "Bergen", "Molde"], K, p=[0.4, 0.4, 0.2]),
        "stage": rng.choice([1, 2, 3, 4], K, p=[0.4, 0.2, 0.2, 0.2]),
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def synth():
    return sa.fit(people(0), "table", label="sex")


def with_repeats(rows):
    return pd.concat([rows.iloc[:104], rows.iloc[:16].assign(person_id=rows["person_id"].iloc[104:].to_numpy())])


FAULTS = {
    "cells": (
        lambda rows: rows.assign(city=rows["city"].where(rows.index % 10 > 2)),
        "distributed differently",
        "city",
    ),
    "constant": (lambda rows: rows.assign(height=170.0), "distributed differently", "height"),
    "identifiers": (lambda rows: rows.assign(person_id=people(0)["person_id"]), "identifiers of stored", "person_id"),
    "repeats": (with_repeats, "some rows are repeated", "13\u00a0%"),
    "swap": (lambda rows: rows.assign(height=rows["weight"], weight=rows["height"]), "swapped", "height and weight"),
    "category": (lambda rows: rows[rows["city"] != "Molde"], "some categories are missing", "city: Molde"),
    "number": (lambda rows: rows[rows["stage"] != 2], "some categories are missing", "stage: 2"),
    "class": (lambda rows: rows[rows["sex"] != "m"], "some classes are missing", "m (0\u00a0% instead of"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_column_is_named(synth, fault):
    plant, headline, name = FAULTS[fault]
    verdict = judge(measure(synth, plant(people(1)).reset_index(drop=True), 0, False, False, quick=True))
    assert headline in verdict.headline
    assert name in verdict.advice


def test_real_rows_have_no_fault(synth):
    checks = judge(measure(synth, people(1), 0, False, False, quick=True)).checks
    assert [name for name, check in checks._asdict().items() if check.passed is False] == []


def pay(rng, n=150):
    """Rows of three related numbers."""
    education, years = rng.integers(1, 6, n), rng.integers(0, 40, n)
    wage = (5 + 2 * education + 0.3 * years + rng.gamma(2, 2, n)).round(2)
    return pd.DataFrame({"wage": wage, "education": education, "years": years})


@pytest.mark.parametrize("value", [19, 5000])
def test_one_broken_column_among_few_is_not_called_noise(value):
    """It changes distances, the mean of all columns, correlations and clusters, and is the reason for these."""
    rng = np.random.default_rng(0)
    stored, new = pay(rng), pay(rng)
    verdict = judge(measure(sa.fit(stored, "table"), new.assign(years=value), 0, False, False, quick=True))
    assert verdict.headline == "New, but distributed differently"
    assert verdict.advice.endswith(": years.")


def shifts(rng):
    return pd.DataFrame({"wage": rng.choice(100, 60), "sex": rng.choice(["f", "m"], 60)})


def test_real_rows_that_equal_stored_ones_by_chance_are_not_copies():
    """The stored rows of this seed repeat each other less often than parts of a random division equal each other."""
    rng = np.random.default_rng(235)
    stored, new = shifts(rng), shifts(rng)
    assert new.merge(stored.drop_duplicates()).shape[0] == 20
    synth = sa.fit(stored, "table")
    for items, passed, headline in ((new, True, "New, but not all"), (stored, False, "These are stored rows")):
        verdict = judge(measure(synth, items, 0, False, False, quick=True))
        assert verdict.checks.copies.passed is passed
        assert verdict.headline.startswith(headline)


def test_columns_of_integers_and_fractions_that_are_swapped_in_a_file(tmp_path):
    """The integers' column of the file has fractions, which must not be cut off."""
    stored, new = pay(np.random.default_rng(0)), pay(np.random.default_rng(1))
    synth = sa.fit(stored, "table")
    new.assign(wage=new["years"], years=new["wage"]).to_csv(tmp_path / "new.csv", index=False)
    items = synth.kind.read_new(synth.codec, tmp_path / "new.csv")
    np.testing.assert_array_equal(items["years"], new["wage"])
    verdict = judge(measure(synth, items, 0, False, False, quick=True))
    assert verdict.headline == "New, but columns seem to be swapped"
    assert "years and wage" in verdict.advice


def test_numbers_of_the_rows_of_a_file_are_not_identifiers_of_stored_rows():
    stored, new = (people(seed).assign(person_id=range(1, K + 1)) for seed in (0, 1))
    kind, codec = (fitted := sa.fit(stored, "table")).kind, fitted.codec
    assert kind.measures.repeated_identifiers(codec, new) == {}
    assert kind.measures.repeated_identifiers(codec, new.iloc[::-1]) == {"person_id": (1.0, 0.0)}
    numbered = sa.fit(stored.assign(person_id=stored["person_id"] + 5000), "table").codec
    assert kind.measures.repeated_identifiers(numbered, new.assign(person_id=new["person_id"] + 5000)) == {
        "person_id": (1.0, 0.0)
    }


def waves(seed, n=60):
    rng = np.random.default_rng(seed)
    classes, time = rng.integers(2, size=n), np.linspace(0, 1, 40)
    signals = np.sin(2 * np.pi * (2 + 2 * classes[:, None]) * time) + 0.3 * rng.normal(size=(n, 40))
    return signals, np.array(["slow wave", "fast wave"])[classes]


def blobs(seed, n=60):
    """Pictures that are bright at the top, or in two of the corners."""
    rng = np.random.default_rng(seed)
    classes, base = rng.integers(2, size=n), np.zeros((2, 8, 8))
    base[0, :3], base[1, 5:, :3], base[1, :3, 5:] = 150, 150, 150
    return (base[classes] + rng.integers(0, 80, (n, 8, 8))).astype(np.uint8), np.array(["sky", "corners"])[classes]


def write(kind, place, items, labels):
    """New items and their classes, as the library writes them."""
    synth = sa.fit(items, kind, labels=labels.tolist())
    n, format = len(items), next(one for one in synth.kind.formats if place.suffix in one.extensions)
    settings, itself = Settings(0, "", ""), np.arange(n)
    batch = Batch(0, synth.codec.stored, itself, np.zeros(n), {}, itself)
    if format.is_folder:
        place.mkdir()
    with nullcontext(place) if format.is_folder else place.open("wb") as target:
        (writer := synth.kind.writer(synth.codec, target, format, settings)).write(batch)
        writer.close()


FILES = [("signals", "new.ts"), ("signals", "new.npz"), ("signals", "new.csv"), ("image", "new"), ("image", "new.npz")]


@pytest.mark.parametrize(("kind", "name"), FILES)
@pytest.mark.parametrize("permuted", [False, True])
def test_classes_in_a_file_of_new_items_are_compared(tmp_path, kind, name, permuted):
    make = {"signals": waves, "image": blobs}[kind]
    stored, labels = make(0)
    synth, (new, said) = sa.fit(stored, kind, labels=labels.tolist()), make(1)
    said = np.random.default_rng(2).permutation(said) if permuted else said
    write(kind, tmp_path / name, new, said)
    read = read_labels(synth.kind, synth.codec, tmp_path / name)
    assert read.tolist() == said.tolist()
    items = synth.kind.read_new(synth.codec, tmp_path / name)
    verdict = judge(measure(synth, items, 0, False, False, quick=True, labels=read))
    assert ("their classes are wrong" in verdict.headline) is permuted


def test_signals_turned_upside_down_are_not_called_too_similar():
    """They lie away from the stored ones, so that the angles between them are small, and vary as much."""
    stored, new = (waves(seed)[0] + np.linspace(-2, 2, 40) for seed in (0, 1))
    synth = sa.fit(stored, "signals")
    verdict = judge(measure(synth, -new[:, None], 0, False, False, quick=True))
    assert verdict.checks.diversity.passed is False
    assert verdict.tone == "bad"
    assert verdict.headline != "Too similar to each other"


def test_pictures_upside_down_are_said_to_have_swapped_regions():
    stored, labels = blobs(0)
    synth = sa.fit(stored[labels == "sky"], "image")
    new, said = blobs(1)
    verdict = judge(measure(synth, new[said == "sky"][:, ::-1], 0, False, False, quick=True))
    assert verdict.headline == "New, but regions seem to be swapped"
    assert "top left and bottom left" in verdict.advice


def related(rng, spread=1.0, noise=0.3):
    """Rows of four columns, the second as the first but for noise; half of the values are 30 times as small."""
    rows = rng.normal(size=(80, 4)) * np.where(rng.random((80, 4)) < 0.5, 1, 1 / 30)
    rows[:, 1] = rows[:, 0] + noise * rng.normal(size=80)
    return pd.DataFrame(spread * rows, columns=list("abcd"))


def explained(new, seed):
    """The differences that random divisions of stored and new rows explain."""
    codec = sa.fit(related(np.random.default_rng([seed, 0])), "table").codec
    relabeling = Relabeling(KIND, codec, codec.stored, new(np.random.default_rng([seed, 1])), seed)
    return {name for name in DIFFERENCES if relabeling.explains(name)}


def test_divisions_explain_how_real_rows_differ():
    """The null: each of five differences is explained in all of 20 pairs, but for one in 500 of them."""
    assert sum(len(explained(related, seed)) for seed in range(20)) >= 99


def test_divisions_do_not_explain_faults():
    """The power: shifted, unrelated and copied rows differ more than any division does."""
    assert PARTS not in explained(lambda rng: related(rng) + 1, 0)
    unrelated = explained(lambda rng: related(rng).apply(rng.permutation), 0)
    assert "relations" not in unrelated
    stored = related(np.random.default_rng([0, 0]))
    assert "nearness" not in explained(lambda rng: stored + 0.001 * rng.normal(size=stored.shape), 0)


@pytest.mark.parametrize("name", [TRAINING, AGREEMENT])
def test_divisions_explain_classes_of_real_items_and_not_permuted_ones(name):
    """Items of classes that overlap train a classifier a little worse by chance, and permuted ones much worse."""
    explained = np.zeros((2, 6), dtype=bool)
    for seed in range(6):
        rng = np.random.default_rng([4, seed])
        classes = rng.integers(2, size=(2, 100))
        stored, new = (pd.DataFrame(rng.normal(size=(100, 3)) + 1.5 * of[:, None]).add_prefix("x") for of in classes)
        labels = np.array(["low", "high"])[classes]
        codec = sa.fit(stored.assign(group=labels[0]), "table", label="group").codec
        for i, of_new in enumerate((labels[1], rng.permutation(labels[1]))):
            pair = (codec.stored, new.assign(group=of_new))
            explained[i, seed] = Relabeling(KIND, codec, *pair, seed, classes=(labels[0], of_new)).explains(name)
    assert explained[0].sum() >= 5  # the null: one of 40 is not explained
    assert explained[1].sum() <= 1  # the power


def test_a_measure_of_signals_is_explained_by_divisions_where_they_are_real():
    rng = np.random.default_rng(0)
    stored, new = rng.gamma(9, size=(2, 30, 1)) * rng.normal(size=(2, 30, 20))
    synth = sa.fit(stored, "signals")

    def relabeling(signals):
        return Relabeling(synth.kind, synth.codec, synth.codec.stored, signals[:, None], 0)

    assert relabeling(new).explains_measure("roughness")
    assert not relabeling(new.cumsum(1) / 4).explains_measure("roughness")


def test_copies_are_infinitely_near_without_a_warning():
    letters = np.random.default_rng(0).choice(list("ACDEFGHIKL"), (30, 12), p=[0.37, *[0.07] * 9])
    synth = sa.fit(["".join(row) for row in letters])
    verdict = judge(measure(synth, synth.codec.stored, 0, False, False, quick=True))
    assert verdict.headline == "These are stored sequences"
