"""The planted faults do what their names say, leave nothing behind, and are noticed by the stated rule."""

import numpy as np
import pytest

import stochattn as sa
from paper import family as families
from paper import faults
from paper.baselines import training
from paper.baselines.vae import VAE
from paper.data import Data
from paper.expected import Expected
from paper.experiments import faces
from paper.results import Measured, Published

BANK = sa.MemoryBank(np.random.default_rng(0).standard_normal((3, 20))).normalized()
ONE = sa.MemoryBank(BANK.patterns[:1])


def chains(bank, beta=50.0, **options):
    return sa.run(bank, beta, n_chains=4, n_steps=50, keep=[25, 50], start=[0] * 4, sigma_init=0.0, rng=0, **options)


@pytest.mark.parametrize("span", [True, False])
def test_louder_noise_is_2_percent_larger(span):
    """With one memory a step is linear, so every deviation from the memory is larger by the factor of the noise."""
    sound = chains(ONE, span=span).samples - ONE.patterns[0]
    with faults._with_noise():
        louder = chains(ONE, span=span).samples - ONE.patterns[0]
    np.testing.assert_allclose(louder, 1.02 * sound, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "same_as"),
    [(faults._colder, {"beta": 52.5}), (faults._longer_steps, {"alpha": 0.02})],
)
def test_chains_run_with_other_settings_and_then_with_theirs_again(change, same_as):
    sound = chains(BANK).samples
    with faults._chains(change):
        faulty = chains(BANK).samples
    np.testing.assert_array_equal(faulty, chains(BANK, **same_as).samples)
    np.testing.assert_array_equal(chains(BANK).samples, sound)
    assert not np.array_equal(faulty, sound)


def test_the_decoder_shifts_letters_and_changes_mean_and_radius(folder):
    family = families.read_family(folder / "pfam" / "PF00076_seed.sto")
    rows, other = family.bank.patterns, families.Family.decode
    sound = family.decode(rows)
    with faults._decoder(shift=1):
        np.testing.assert_array_equal(family.decode(rows), (sound + 1) % 20)
    with faults._decoder(radius=2.0):
        np.testing.assert_array_equal(family.decode(rows), other(family, rows, 2.0))
    with faults._decoder(mean=0.0, radius=3.0):
        without_mean = family.decode(rows)
    channels = (rows @ family.components).reshape(len(rows), family.length, 20)
    present = without_mean != families.GAP
    np.testing.assert_array_equal(without_mean[present], channels.argmax(-1)[present])
    assert present.mean() > 0.98
    np.testing.assert_array_equal(family.decode(rows), sound)


def test_chains_without_their_mask_reach_other_subjects(folder):
    bank, subjects = Data(folder).faces()
    portraits = faces.Portraits(bank, subjects, 100)
    masked = portraits.masked(0)
    with faults._without_mask():
        free = portraits.ends(masked, 20.0, portraits.of(0), 0)
    np.testing.assert_array_equal(free, portraits.ends(bank, 20.0, portraits.of(0), 0))
    assert not np.array_equal(free, portraits.ends(masked, 20.0, portraits.of(0), 0))


def test_untrained_networks_are_neither_trained_nor_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path))
    before = training.seconds_spent
    with faults._untrained():
        first = VAE(BANK.patterns, 0, latent=2, hidden=(8,), epochs=50)
    assert training.seconds_spent == before
    assert not list(tmp_path.rglob("*.pt"))
    trained = VAE(BANK.patterns, 0, latent=2, hidden=(8,), epochs=50)
    assert trained.loss < first.loss


def test_a_cell_notices_a_fault_if_its_margin_passes_three_standard_errors():
    published = {
        "row": {
            "far": Published.parse("0.500 ± 0.010"),
            "close": Published.parse("0.500 ± 0.010"),
            "wrong before": Published.parse("0.500 ± 0.010"),
        }
    }
    expected = Expected("t", "T", published)

    def table(far, close, wrong, law):
        cells = {"far": Measured(far), "close": Measured(close), "wrong before": Measured(wrong)}
        return expected.against({"row": {**cells, "law": Measured(law, 0.01, exact=0.5)}, "new": {"x": Measured(1.0)}})

    sound = {"t": table(0.51, 0.51, 0.60, 0.51)}
    found = faults._compare("a fault", [table(0.56, 0.52, 0.70, 0.56)], sound)
    assert found.cells == 5
    assert [line.split(":")[0] for line in found.noticed] == ["t, row, far", "t, row, law"]
    assert faults._compare("none", [sound["t"]], sound).noticed == []


def test_power_needs_finished_results(folder):
    with pytest.raises(RuntimeError, match="no finished results"):
        faults.run(Data(folder), 0, {})


def test_every_fault_of_the_list_is_planted():
    assert [fault.name for fault in faults.FAULTS] == [
        "noise × 1.02",
        "β × 1.05",
        "α × 2",
        "decoder: mean × 0.9",
        "decoder: radius × 1.5",
        "decoder: letters shifted by one",
        "chain without its mask, readout with it",
        "untrained baselines",
    ]
