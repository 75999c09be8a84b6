"""The loop and its Draws: the contract of every sampler."""

import inspect
import math
import signal
import threading
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import torch

import stochattn as sa
from banks import BANKS, make_bank
from stochattn import energy, metrics, neighbors
from stochattn._backend import parallel, products
from stochattn._backend.random import NumpyStreams
from stochattn.samplers import SAMPLERS, base, plan
from stochattn.samplers import loop as runner
from stochattn.samplers.complement import OscillatorComplement, Space
from stochattn.samplers.langevin import LangevinOptions
from stochattn.samplers.plan import in_rows
from stochattn.samplers.underdamped import Underdamped, UnderdampedOptions

SHORT = {"n_chains": 5, "n_steps": 40, "warmup": 10, "thin": 5, "rng": 1}
OPTIONS = {
    "exact": {},
    "ula": {"alpha": 0.05},
    "mala": {"alpha": 0.05},
    "underdamped": {"step_size": 0.3, "friction": 2.0},
}
"""Options of each sampler that are not its defaults."""
LARGE_STEPS = {"exact": {}, "ula": {"alpha": 0.2}, "mala": {"alpha": 0.2}, "underdamped": {"step_size": 0.5}}
"""Options with which states 30 steps apart are independent."""
REJECTING = {"mala"}
"""Samplers that reject proposals, and stay where they are."""


@pytest.fixture(autouse=True)
def ordinary_ctrl_c():
    """Some shells start background jobs with SIGINT ignored; these tests need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=SAMPLERS)
def sampler(request):
    return request.param


class Trap:
    """Sets a flag if it is ever unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes_types_and_settings(sampler, library, dtype):
    bank = make_bank("unit", library, dtype)
    draws = sa.run(bank, 20.0, sampler=sampler, **SHORT)
    assert tuple(draws.samples.shape) == (5, 6, 12)
    assert draws.samples.dtype == bank.patterns.dtype
    assert type(draws.samples) is type(bank.patterns)
    assert tuple(draws.pooled().shape) == (30, 12)
    np.testing.assert_array_equal(draws.steps, [15, 20, 25, 30, 35, 40])
    assert draws.energies.shape == draws.basins.shape == (5, 6)
    assert draws.acceptance.shape == (5,)
    assert (draws.settings.seed, draws.settings.beta, draws.settings.version) == (1, 20.0, sa.__version__)
    assert draws.settings.complete
    assert f"5 chains x 6 kept, d=12, {sampler}, beta=20, seed=1" in repr(draws)


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("span", [True, False])
def test_recorded_energies_and_basins_agree_with_the_samples(sampler, library, kind, span):
    bank = make_bank(kind, library)
    draws = sa.run(bank, 20.0, sampler=sampler, span=span, **SHORT)
    np.testing.assert_allclose(draws.energies, energy.energy(draws.samples, bank, 20.0), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(draws.basins, neighbors.nearest_memory(draws.samples, bank)[0])
    occupancy = draws.occupancy()
    assert occupancy.shape == (5,)
    assert occupancy.sum() == pytest.approx(1)
    assert set(np.flatnonzero(occupancy)) <= set(bank.kept)


@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 12), (30, 37), (70, 9), (100, 784)])
def test_a_chain_is_the_same_alone_or_among_others(sampler, library, span, shape, dtype):
    """Bit for bit: chain i depends on (seed, i) only, not on the number of chains or its row."""
    bank = sa.MemoryBank((np.random.default_rng(0).standard_normal(shape) / 3).astype(dtype))
    if library == "torch":
        bank = sa.MemoryBank(torch.tensor(bank.patterns))
    options = {"sampler": sampler, "span": span, "n_steps": 30, "warmup": 0, "thin": 10, "rng": 4}
    among = sa.run(bank, 30.0, n_chains=33, **options)
    for i in (0, 1, 5, 7, 8, 20, 32):
        alone = sa.run(bank, 30.0, n_chains=1, first_chain=i, **options)
        assert same(alone.samples[0], among.samples[i])
        assert same(alone.energies[0], among.energies[i])
    some = sa.run(bank, 30.0, n_chains=11, first_chain=9, **options)
    assert same(some.samples, among.samples[9:20])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [3.0, 30.0, 3000.0], ids=["many memories", "few and many", "few memories"])
def test_large_banks_are_attended_to_alike(sampler, beta, dtype, monkeypatch):
    """Products in panels, and sums over few memories: the same chain alone or among others, for any number of cores.

    30 steps of rounding errors apart from chains that multiply with all memories at once.
    """
    bank = sa.MemoryBank((np.random.default_rng(0).standard_normal((70, 37)) / 6).astype(dtype))
    options = {"sampler": sampler, "n_steps": 30, "warmup": 0, "thin": 10, "rng": 4, **OPTIONS[sampler]}
    plain = sa.run(bank, beta, n_chains=33, **options)
    monkeypatch.setattr(base, "MIN_SPARSE_NUMBERS", 0)
    monkeypatch.setattr(products, "PANEL_NUMBERS", 200)
    among = sa.run(bank, beta, n_chains=33, **options)
    if sampler not in REJECTING or dtype == np.float64:  # a rounding error may accept what was rejected
        np.testing.assert_allclose(among.samples, plain.samples, rtol=0, atol=2000 * np.finfo(dtype).eps)
    for i in (0, 5, 8, 20, 32):
        alone = sa.run(bank, beta, n_chains=1, first_chain=i, **options)
        assert same(alone.samples[0], among.samples[i])
        assert same(alone.energies[0], among.energies[i])
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "usable_cores", lambda cores=cores: cores)
        assert same(sa.run(bank, beta, n_chains=33, **options).samples, among.samples)


def test_chains_do_not_share_noise(sampler):
    """Outside the span, states 30 steps apart are independent normals: |r| < 5/√n between any two chains."""
    bank = sa.MemoryBank(np.eye(3, 40))
    options = {"n_chains": 20, "n_steps": 600, "warmup": 0, "thin": 30, "rng": 0, **LARGE_STEPS[sampler]}
    draws = sa.run(bank, 10.0, sampler=sampler, **options)
    noise = draws.samples[:, :, 3:].reshape(20, -1)
    correlation = np.corrcoef(noise) - np.eye(20)
    assert np.abs(correlation).max() < 5 / math.sqrt(noise.shape[1])
    serial = (draws.samples[:, 1:, 3:] * draws.samples[:, :-1, 3:]).mean() * 10.0
    if sampler not in REJECTING:  # states of a chain that stays where it was are equal
        assert abs(serial) < 5 / math.sqrt(noise.size)


def test_numpy_and_torch_agree(sampler):
    results = [
        np.asarray(sa.run(make_bank("weights", lib), 9.0, sampler=sampler, **SHORT).samples)
        for lib in ("numpy", "torch")
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("cut", [20, 1030])
def test_a_continued_run_is_one_uninterrupted_run(sampler, library, span, cut, tmp_path):
    """Also across an epoch of the random streams (1,024 steps), and through a file."""
    bank = make_bank("unequal", library)
    options = {"sampler": sampler, "span": span, "warmup": 0, "thin": 10, **OPTIONS[sampler]}
    whole = sa.run(bank, 12.0, n_chains=3, n_steps=cut + 40, rng=5, **options)
    first = sa.run(bank, 12.0, n_chains=3, n_steps=cut, rng=5, **options)
    second = sa.run(bank, 12.0, n_steps=40, thin=10, span=span, start=first)  # its sampler and options, no warm-up
    n = first.samples.shape[1]
    assert same(first.samples, whole.samples[:, :n])
    assert same(second.samples, whole.samples[:, n:])
    assert same(second.steps, whole.steps[n:])
    first.save(tmp_path / "first.npz")
    loaded = sa.run(bank, 12.0, n_steps=40, start=sa.Draws.load(tmp_path / "first.npz").last, **options)
    assert same(loaded.samples, second.samples)


def test_a_run_may_stop_between_kept_states(sampler):
    """The complement has moved since the last kept state, and continues from there."""
    bank = make_bank("unit")
    options = {"sampler": sampler, **OPTIONS[sampler]}
    whole = sa.run(bank, 12.0, n_chains=3, n_steps=30, keep=[10, 30], rng=5, **options)
    first = sa.run(bank, 12.0, n_chains=3, n_steps=17, keep=[10], rng=5, **options)
    second = sa.run(bank, 12.0, n_steps=13, keep=[13], start=first.last, **options)
    assert same(second.samples[:, 0], whole.samples[:, 1])


def test_save_and_load(sampler, library, tmp_path):
    draws = sa.run(make_bank("subset", library), 12.0, sampler=sampler, **SHORT)
    for name in ("one.npz", "two.npz"):
        draws.save(tmp_path / name)
    again = sa.run(make_bank("subset", library), 12.0, sampler=sampler, **SHORT)
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    loaded = sa.Draws.load(tmp_path / "two.npz")
    for name in ("samples", "energies", "basins", "steps", "acceptance"):
        assert same(getattr(loaded, name), getattr(draws, name))
    assert loaded.settings == draws.settings
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.npz", "one.npz", "two.npz"]


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    draws = sa.run(make_bank("unit"), 9.0, **SHORT)
    draws.save(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()

    def fails(file, **arrays):
        file.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(OSError, match="disk full"):
        draws.save(tmp_path / "run.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    assert (tmp_path / "run.npz").read_bytes() == before


def test_load_runs_no_code_from_a_file(tmp_path):
    """A saved file with one array of pickled objects: numpy rejects it before unpickling."""
    sa.run(make_bank("unit"), 9.0, **SHORT).save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        arrays = dict(file)
    arrays["array1"] = np.array([Trap()], dtype=object)
    np.savez(tmp_path / "trap.npz", **arrays)
    with pytest.raises(ValueError, match=r"written by Draws\.save"):
        sa.Draws.load(tmp_path / "trap.npz")
    assert not Trap.sprung


def test_load_rejects_other_files(tmp_path):
    (tmp_path / "text.npz").write_text("no numbers here")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickle.npz", about=np.array([{"format": "x"}], dtype=object))
    for name in ("text.npz", "other.npz", "pickle.npz"):
        with pytest.raises(ValueError, match=r"written by Draws\.save"):
            sa.Draws.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        sa.Draws.load(tmp_path / "nothing.npz")
    with pytest.raises(TypeError, match="path must be the path of a file"):
        sa.Draws.load(None)
    with pytest.raises(TypeError, match="path must be the path of a file"):
        sa.run(make_bank("unit"), 9.0, **SHORT).save(None)
    sa.run(make_bank("unit"), 9.0, **SHORT).save(tmp_path / "whole.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-500])
    with pytest.raises(ValueError, match="or is damaged"):
        sa.Draws.load(tmp_path / "cut.npz")


def test_saved_draws_say_their_format_and_no_other_is_read(tmp_path):
    sa.run(make_bank("unit"), 9.0, **SHORT).save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        arrays = dict(file)
    state = str(arrays["state"])
    assert '"format": "stochattn draws 2"' in state  # files in use: a change of the number makes them unreadable
    arrays["state"] = np.array(state.replace("stochattn draws 2", "stochattn draws 1"))
    np.savez(tmp_path / "old.npz", **arrays)
    with pytest.raises(ValueError, match=r"written by Draws\.save"):
        sa.Draws.load(tmp_path / "old.npz")


@pytest.mark.parametrize("sampler", ["exact", "ula", "mala", "underdamped"])
def test_which_states_are_kept_matters_outside_the_span_alone(sampler):
    X = np.random.default_rng(0).normal(size=(5, 12)) / 4  # d exceeds the rank
    basis = np.linalg.qr(X.T)[0]
    for span, shared in ((None, np.eye(12) if sampler == "exact" else basis @ basis.T), (False, np.eye(12))):
        runs = [
            sa.run(X, 9.0, sampler=sampler, n_chains=2, n_steps=40, keep=keep, rng=0, span=span).samples[:, -1]
            for keep in ([40], [20, 40])
        ]
        np.testing.assert_allclose(runs[0] @ shared, runs[1] @ shared, atol=1e-10)


def test_save_needs_a_folder_and_writes_through_links(tmp_path):
    draws = sa.run(make_bank("unit"), 9.0, **SHORT)
    with pytest.raises(FileNotFoundError, match="create it first"):
        draws.save(tmp_path / "new" / "run.npz")
    (tmp_path / "new").mkdir()
    draws.save(tmp_path / "new" / "run.npz")
    assert same(sa.Draws.load(tmp_path / "new" / "run.npz").samples, draws.samples)
    with pytest.raises(OSError, match=r"exists|directory"):
        draws.save(tmp_path)
    (tmp_path / "real.npz").touch()
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    draws.save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert same(sa.Draws.load(tmp_path / "real.npz").samples, draws.samples)


def test_arviz_diagnostics(library):
    bank = make_bank("unit", library)
    draws = sa.run(bank, 4.0, sampler="mala", n_chains=4, n_steps=2000, warmup=0, thin=2, alpha=0.3, rng=0)
    data = draws.to_arviz()
    import arviz  # after the library, which suppresses warnings of the import

    assert data.posterior["xi"].shape == (4, 1000, 12)
    np.testing.assert_array_equal(data.sample_stats["energy"], draws.energies)
    assert data.attrs["sampler"] == "mala"
    assert 100 < draws.ess() <= draws.ess("energy") <= 4 * 1000 * 1.5
    assert 1 <= draws.rhat("energy") <= draws.rhat() < 1.05
    assert draws.ess() == min(draws.ess("energy"), draws.ess("xi").min())
    stuck = sa.run(bank, 2000.0, sampler="mala", n_chains=4, n_steps=800, warmup=400, thin=20, rng=0)
    assert stuck.rhat() > 1.5  # four chains in four basins, whose energies agree
    assert draws.ess("xi").shape == draws.rhat("xi").shape == (12,)
    assert draws.ess("xi")[0] == pytest.approx(float(arviz.ess(np.asarray(draws.samples)[:, :, 0])))
    with pytest.raises(ValueError, match="of must be one of"):
        draws.ess("temperature")


def test_every_hundredth_state_is_kept_unless_the_user_says_otherwise():
    draws = sa.run(make_bank("unit"), 4.0, n_chains=1, n_steps=300, warmup=0, rng=0)
    assert list(draws.steps) == [100, 200, 300]


def test_diagnostics_need_enough_kept_states():
    draws = sa.run(make_bank("unit"), 4.0, n_chains=1, n_steps=30, warmup=0, thin=10, rng=0)
    with pytest.raises(ValueError, match="ess needs at least 4 kept states; got 3 of 1"):
        draws.ess()
    with pytest.raises(ValueError, match="rhat needs at least 4 kept states of 2 chains; got 3 of 1"):
        draws.rhat()
    with pytest.raises(ValueError, match=r"of must be one of .* got 'temperature'"):
        draws.rhat("temperature")
    enough = sa.run(make_bank("unit"), 4.0, n_chains=2, n_steps=40, warmup=0, thin=10, rng=0)
    assert np.isfinite([enough.ess("energy"), enough.rhat("energy")]).all()
    assert (enough.to_arviz().attrs["seed"], enough.to_arviz().attrs["complete"]) == (
        "0",
        "True",
    )  # netCDF has no truths
    alone = sa.run(make_bank("unit"), 4.0, n_chains=1, n_steps=40, warmup=0, thin=10, rng=0)
    assert np.isfinite(alone.ess("energy"))
    with pytest.raises(ValueError, match="rhat needs at least 4 kept states of 2 chains; got 4 of 1"):
        alone.rhat()


def test_the_worst_diagnostic_is_that_of_all_coordinates_and_of_the_energy():
    draws = sa.run(make_bank("unit"), 4.0, n_chains=3, n_steps=400, warmup=0, thin=10, rng=0)
    for diagnose, worst in ((draws.ess, min), (draws.rhat, max)):
        values = [diagnose("energy"), *diagnose("xi")]
        assert len(set(values)) == 13
        assert diagnose() == worst(values)


def test_crossings_count_changes_of_basin():
    bank = sa.MemoryBank(np.eye(2) * 3)
    cold = sa.run(bank, 200.0, n_chains=4, n_steps=200, warmup=0, thin=10, rng=0)
    assert cold.crossings().tolist() == [0, 0, 0, 0]
    hot = sa.run(bank, 0.2, n_chains=4, n_steps=2000, warmup=0, thin=100, alpha=0.1, rng=0)
    np.testing.assert_array_equal(hot.crossings(), (np.diff(hot.basins) != 0).sum(1))
    assert (hot.crossings() > 0).all()


def test_starts(library):
    bank = make_bank("subset", library)
    once = {"sampler": "ula", "n_chains": 3, "n_steps": 1, "keep": [1], "alpha": 1e-12, "rng": 0}
    near = np.asarray(sa.run(bank, 1.0, start=[2, 0, 2], sigma_init=1e-3, **once).samples)[:, 0]
    np.testing.assert_allclose(near, np.asarray(bank.patterns)[[2, 0, 2]], atol=0.01)
    spread = np.asarray(sa.run(bank, 1.0, sigma_init=1e-3, **once).basins)[:, 0]
    assert sorted(spread) == [0, 2, 3]  # a different memory each, all of the subset
    sphere = np.asarray(sa.run(bank, 1.0, start="sphere", **once).samples)[:, 0]
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1, atol=1e-4)
    given = np.random.default_rng(0).standard_normal((3, 12))
    small = {"ula": {"alpha": 1e-12}, "mala": {"alpha": 1e-12}, "underdamped": {"step_size": 1e-6}}
    for sampler, options in small.items():
        for span in (True, False):
            settings = {"start": given, "span": span, "n_chains": 3, "n_steps": 1, "keep": [1], "rng": 0, **options}
            moved = sa.run(bank, 1.0, sampler=sampler, **settings).samples[:, 0]
            np.testing.assert_allclose(moved, given, atol=1e-4)
    many = {**once, "n_chains": 500, "start": np.zeros(500, int), "sigma_init": 0.3}
    gaps = np.asarray(sa.run(bank, 1.0, **many).samples)[:, 0] - np.asarray(bank.patterns)[0]
    assert gaps.std() == pytest.approx(0.3, rel=5 / np.sqrt(2 * gaps.size))


def test_on_keep_gets_every_kept_state(sampler):
    seen = []
    draws = sa.run(make_bank("unit"), 9.0, sampler=sampler, on_keep=lambda t, x: seen.append((t, x.copy())), **SHORT)
    assert [t for t, _ in seen] == draws.steps.tolist()
    assert same(np.stack([x for _, x in seen], 1), draws.samples)


def test_ctrl_c_returns_the_states_kept_so_far(sampler):
    """Interrupted at the third kept state; continuing gives the rest of the uninterrupted run."""
    bank, handler = make_bank("unit"), signal.getsignal(signal.SIGINT)
    options = {"sampler": sampler, "n_chains": 3, "warmup": 0, "thin": 10, "rng": 2}
    whole = sa.run(bank, 9.0, n_steps=100, **options)
    press = lambda t, x: signal.raise_signal(signal.SIGINT) if t == 30 else None  # noqa: E731
    with pytest.warns(RuntimeWarning, match=r"interrupted after 30 of 100 steps; the 3 states"):
        partial = sa.run(bank, 9.0, n_steps=100, on_keep=press, **options)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not partial.settings.complete
    assert "interrupted after 30 steps" in repr(partial)
    assert same(partial.samples, whole.samples[:, :3])
    rest = sa.run(bank, 9.0, n_steps=70, start=partial, thin=10)
    assert same(rest.samples, whole.samples[:, 3:])


@pytest.mark.parametrize("stop", [4, 10, 37])
def test_continuing_keeps_the_states_that_were_due(sampler, stop, monkeypatch):
    """Stopped in warm-up, at a kept state or between two: continuing keeps the states that the whole run keeps."""
    bank = make_bank("unit")
    options = {"sampler": sampler, "n_chains": 3, "warmup": 10, "thin": 10, "rng": 2}
    whole = sa.run(bank, 9.0, n_steps=100, **options)

    class Stopping(SAMPLERS[sampler]):
        def advance(self, noise, state, beta, steps):
            if noise.step + 1 == stop:
                signal.raise_signal(signal.SIGINT)
            return super().advance(noise, state, beta, steps)

    monkeypatch.setitem(SAMPLERS, sampler, Stopping)
    monkeypatch.setattr(runner, "MAX_CPU_STEPS", 1)
    with pytest.warns(RuntimeWarning, match=f"interrupted after {stop} of 100"):
        partial = sa.run(bank, 9.0, n_steps=100, **options)
    monkeypatch.undo()
    rest = sa.run(bank, 9.0, n_steps=100 - stop, thin=10, start=partial)
    assert same(np.concatenate([partial.samples, rest.samples], 1), whole.samples)
    assert same(np.concatenate([partial.steps, rest.steps]), whole.steps)


@pytest.mark.parametrize("in_step", [3, 12])
def test_an_interrupt_within_a_step_leaves_the_chains_as_they_were(in_step, monkeypatch):
    """A user's handler may raise between any two operations, here after the first that overwrites a state."""
    bank, options = make_bank("unit"), {"sampler": "ula", "n_chains": 3, "warmup": 0, "thin": 10, "rng": 2}
    whole = sa.run(bank, 9.0, n_steps=40, **options)

    class Raising(np.ndarray):
        def __imul__(self, other):
            raise KeyboardInterrupt

    normal = NumpyStreams.normal
    noise = lambda self, r: normal(self, r).view(Raising) if self.step == in_step else normal(self, r)  # noqa: E731
    monkeypatch.setattr(NumpyStreams, "normal", noise)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        partial = sa.run(bank, 9.0, n_steps=40, **options)
    monkeypatch.undo()
    rest = sa.run(bank, 9.0, n_steps=40 - partial.last.step, thin=10, start=partial)
    assert same(np.concatenate([partial.samples, rest.samples], 1), whole.samples)


def test_a_chunk_ends_where_beta_changes(sampler):
    """Kept at every step, no chunk is longer than a step; kept once, the same schedule must give the same state."""
    betas = np.repeat([5.0, 9.0, 30.0, 9.0], [3, 4, 1, 4])
    options = {"sampler": sampler, "n_chains": 3, "n_steps": 12, "rng": 2, "span": False}
    every = sa.run(make_bank("unit"), betas, keep=range(1, 13), **options)
    assert same(sa.run(make_bank("unit"), betas, keep=[12], **options).samples[:, 0], every.samples[:, -1])


def test_chains_do_not_carry_gradients():
    start = torch.zeros(3, 12, dtype=torch.float64, requires_grad=True)
    draws = sa.run(make_bank("unit", "torch"), 9.0, n_chains=3, n_steps=4, warmup=0, thin=2, start=start, rng=0)
    assert not draws.samples.requires_grad


def test_a_user_s_handler_that_raises():
    def handler(number, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    press = lambda t, x: signal.raise_signal(signal.SIGINT) if t == 30 else None  # noqa: E731
    with pytest.warns(RuntimeWarning, match="the 3 states kept so far"):
        partial = sa.run(make_bank("unit"), 9.0, n_steps=100, warmup=0, thin=10, on_keep=press)
    assert partial.samples.shape[1] == 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_stops_at_once():
    def press(t, x):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sa.run(make_bank("unit"), 9.0, n_steps=100, thin=1, warmup=0, on_keep=press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_runs_off_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(sa.run(make_bank("unit"), 9.0, **SHORT)))
    thread.start()
    thread.join()
    assert same(found[0].samples, sa.run(make_bank("unit"), 9.0, **SHORT).samples)


@pytest.mark.parametrize(("n_chains", "n_kept"), [(10, 5), (200, 1)])
@pytest.mark.parametrize("sampler", ["ula", "mala", "underdamped"])
def test_memory_is_kept_states_bank_and_noise(sampler, n_chains, n_kept):
    """d = 20,000: bank and basis, 3.2 MB each, exist before the run; storing every step would take gigabytes.

    Beside the kept states a chain holds its part outside the span, as large as one kept state (two while it starts, and
    with a momentum); noise is generated in blocks of 2 MB, and states are kept in blocks of rows.
    """
    bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((20, 20_000)) / 100)
    assert bank.rank == 20
    state = 20_000 * 8
    tracemalloc.start()
    draws = sa.run(bank, 100.0, sampler=sampler, n_chains=n_chains, n_steps=400, warmup=0, thin=400 // n_kept, rng=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert draws.samples.nbytes == n_chains * n_kept * state
    rows = -(-n_chains // 8) * 8
    copies = {"ula": 2, "mala": 3, "underdamped": 3}[sampler]
    assert peak < draws.samples.nbytes + copies * rows * state + 40e6


def test_seeds(library):
    bank = make_bank("unit", library)
    results = {}
    for name, make in {
        "seed": lambda: 7,
        "numpy": lambda: np.random.default_rng(7),
        "torch": lambda: torch.Generator().manual_seed(7),
    }.items():
        one, two = make(), make()
        first = sa.run(bank, 9.0, **{**SHORT, "rng": one})
        assert same(first.samples, sa.run(bank, 9.0, **{**SHORT, "rng": two}).samples)
        results[name] = first
        if name != "seed":  # a generator advances: the next run is another one
            assert not same(first.samples, sa.run(bank, 9.0, **{**SHORT, "rng": one}).samples)
    fresh = sa.run(bank, 9.0, **{**SHORT, "rng": None})
    assert same(fresh.samples, sa.run(bank, 9.0, **{**SHORT, "rng": fresh.settings.seed}).samples)
    assert not same(fresh.samples, sa.run(bank, 9.0, **{**SHORT, "rng": None}).samples)


@pytest.mark.parametrize("beta", [1e-3, 1e5, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_temperatures(sampler, library, beta, dtype):
    draws = sa.run(make_bank("unequal", library, dtype), beta, sampler=sampler, **SHORT)
    assert np.isfinite(np.asarray(draws.samples)).all()
    assert np.isfinite(draws.energies).all()
    if beta > 1 and sampler == "ula":
        assert (draws.basins == draws.basins[:, :1]).all()
        assert metrics.novelty(draws.pooled(), make_bank("unequal", library, dtype)).max() < 0.01


@pytest.mark.parametrize("X", [[[0.5]], [[1.0, 2.0, 3.0]], [[1.0], [1.0], [-2.0]], np.ones((3, 4)), np.zeros((2, 3))])
def test_degenerate_banks(sampler, X):
    """K = 1, d = 1, duplicates, all memories equal, all zero."""
    draws = sa.run(sa.MemoryBank(X), 5.0, sampler=sampler, **SHORT)
    assert np.isfinite(draws.samples).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"beta": 0.0}, ValueError, "beta must be a positive"),
        ({"beta": [1.0, 2.0]}, ValueError, "one for each of the 40 steps"),
        ({"beta": [0.0] * 40}, ValueError, "positive and finite at every step"),
        ({"alpha": 0.0}, ValueError, "alpha must lie strictly between 0 and 1; got 0.0"),
        ({"alpha": 1.0}, ValueError, "alpha must lie"),
        ({"alpha": "big"}, TypeError, "alpha must be a number"),
        ({"alpha": True}, TypeError, "alpha must be a number"),
        ({"sampler": "x"}, ValueError, "sampler must be one of 'exact', 'ula', 'mala', 'underdamped'.*; got 'x'"),
        ({"friction": 1.0}, TypeError, "run has no argument 'friction', and sampler 'ula' has the options alpha."),
        ({"sampler": "exact", "alpha": 0.1}, TypeError, "no argument 'alpha', and sampler 'exact' has no options"),
        ({"sampler": "underdamped", "step": 1}, TypeError, "sampler 'underdamped' has the options step_size, friction"),
        ({"sampler": "underdamped", "step_size": 2.0}, ValueError, "step_size must be below 2, where"),
        ({"sampler": "underdamped", "step_size": 0.0}, ValueError, "step_size must be a positive, finite"),
        ({"sampler": "underdamped", "friction": -1}, ValueError, "friction must be a positive, finite"),
        ({"n_chains": 0}, ValueError, "n_chains must be at least 1"),
        ({"n_chains": 2.5}, TypeError, "n_chains must be an integer"),
        ({"n_steps": 0}, ValueError, "n_steps must be at least 1"),
        ({"warmup": 38}, ValueError, r"n_steps must be at least 43 \(warmup \+ thin\)"),
        ({"thin": 0}, ValueError, "thin must be at least 1"),
        ({"keep": [3, 2]}, ValueError, "keep must hold rising steps from 1 to n_steps=40"),
        ({"keep": [41]}, ValueError, "keep must hold rising steps"),
        ({"keep": []}, ValueError, "keep must hold rising steps"),
        ({"keep": 5}, TypeError, "keep must hold steps, such as"),
        ({"on_keep": 5}, TypeError, "on_keep must be a function"),
        ({"span": "yes"}, TypeError, "span must be True, False or None"),
        ({"progress": 1}, TypeError, "progress must be True, False or None"),
        ({"n_chains": True}, TypeError, "n_chains must be an integer"),
        ({"beta": 10**400}, ValueError, "beta must be a positive, finite"),
        ({"start": None}, TypeError, "start must be one of .* or draws to continue; got NoneType"),
        ({"start": "nowhere"}, ValueError, "start must be one of 'memories', 'sphere', 'equilibrium'"),
        ({"start": [0, 1]}, ValueError, "each of the 5 chains; got 2"),
        ({"start": [0, 1, 2, 3, 9]}, ValueError, "start must lie between 0 and 4"),
        ({"start": np.zeros((5, 11))}, ValueError, "start must have d=12 columns"),
        ({"start": np.zeros((4, 12))}, ValueError, "each of the 5 chains; got 4"),
        ({"start": np.full((5, 12), np.nan)}, ValueError, "start must be finite"),
        ({"start": np.zeros((5, 2, 12))}, ValueError, "start must be one of"),
        ({"sigma_init": -1.0}, ValueError, "sigma_init must be a finite number, zero or more"),
        ({"rng": -1}, ValueError, "rng must be a non-negative integer"),
        ({"rng": "seed"}, TypeError, "rng must be an integer, a numpy Generator"),
        ({"first_chain": -1}, ValueError, "first_chain must be at least 0"),
    ],
)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        sa.run(make_bank("unit"), **{"beta": 9.0, **SHORT, **options})


def test_step_sizes_are_checked_and_plain_numbers():
    assert type(LangevinOptions(np.float32(0.5)).alpha) is float
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1; got 1"):
        LangevinOptions(1.0)


def test_bad_continuations():
    bank = make_bank("unit")
    draws = sa.run(bank, 9.0, **SHORT)
    with pytest.raises(ValueError, match="sampler must be that of the run to continue, 'ula'"):
        sa.run(bank, 9.0, n_steps=10, warmup=0, thin=1, sampler="mala", start=draws.last)
    with pytest.raises(ValueError, match="start holds chains in 5 dimensions, but this bank's run in 12"):
        sa.run(bank, 9.0, n_steps=10, warmup=0, thin=1, start=draws.last, span=False)
    for name in ("rng", "n_chains", "first_chain"):
        with pytest.raises(ValueError, match=f"{name} must not be given when a run continues"):
            sa.run(bank, 9.0, n_steps=10, thin=1, start=draws, **{name: 3})
    with pytest.raises(ValueError, match="its memories or multiplicities are different"):
        sa.run(sa.MemoryBank(bank.patterns[::-1]), 9.0, n_steps=10, thin=1, start=draws)
    with pytest.raises(ValueError, match="memory 1 has weight zero"):
        sa.run(make_bank("subset"), 9.0, n_steps=10, warmup=0, thin=1, n_chains=1, start=[1])


def test_settings_and_checkpoint_have_the_options(sampler):
    draws = sa.run(make_bank("unit"), 9.0, sampler=sampler, **SHORT, **OPTIONS[sampler])
    assert draws.settings.options == draws.last.settings.options == OPTIONS[sampler]
    default = sa.run(make_bank("unit"), 9.0, sampler=sampler, **SHORT).settings.options
    assert set(default) == set(OPTIONS[sampler])


def test_a_continued_run_may_change_its_options():
    bank = make_bank("unit")
    first = sa.run(bank, 9.0, **SHORT)
    second = sa.run(bank, 9.0, start=first, n_steps=10, thin=5, alpha=0.5)
    assert second.settings.options == {"alpha": 0.5}
    assert not same(second.samples, sa.run(bank, 9.0, start=first, n_steps=10, thin=5).samples)


def test_the_checkpoint_has_the_whole_state_by_name(library):
    """Momenta and gradients in the span (rank 5), positions and momenta outside it: one row for each chain."""
    last = sa.run(make_bank("unit", library), 9.0, sampler="underdamped", **SHORT).last
    shapes = {name: tuple(value.shape) for name, value in last.state.items() if np.ndim(value)}
    inside = {"xi": (5, 5), "momentum": (5, 5), "gradient": (5, 5)}
    assert shapes == {**inside, "complement.x": (5, 12), "complement.p": (5, 12)}
    assert last.state["beta"] == 9.0


def test_names_of_samplers_are_unique():
    sa.register_sampler("ula", SAMPLERS["ula"])
    with pytest.raises(ValueError, match="there is a sampler 'ula' already"):
        sa.register_sampler("ula", SAMPLERS["mala"])
    with pytest.raises(TypeError, match="sampler must be a subclass of Sampler"):
        sa.register_sampler("mine", dict)


def test_a_chain_between_memories_has_the_same_basin_alone_and_among_others():
    """Half way between two memories, the last bits decide, which in a plain product depend on the number of rows."""
    rng = np.random.default_rng(0)
    X, k = rng.standard_normal((40, 301)), rng.integers(40, size=(64, 2))
    xi, attention = X[k].mean(1), base.ChainAttention(sa.MemoryBank(X))
    in_parts = np.concatenate([attention.nearest(xi[i : i + 8]) for i in range(0, 64, 8)])
    np.testing.assert_array_equal(attention.nearest(xi), in_parts)


def test_the_acceptance_rate_counts_every_step():
    bank, options = make_bank("unit"), {"sampler": "mala", "alpha": 0.6, "n_chains": 6, "n_steps": 64, "rng": 0}
    often = sa.run(bank, 8.0, span=False, warmup=0, thin=1, **options)
    rarely = sa.run(bank, 8.0, span=False, warmup=0, thin=64, **options)
    moved = (np.diff(often.samples, axis=1) != 0).any(-1).sum(1)
    np.testing.assert_array_equal(often.samples[:, -1], rarely.samples[:, -1])
    np.testing.assert_array_equal(often.acceptance, rarely.acceptance)
    assert (np.abs(64 * often.acceptance - moved) <= 1).all()  # the first step is not among the differences
    assert (rarely.acceptance < 0.95).any()


def test_kept_states_do_not_depend_on_how_many_are_completed_together(sampler, monkeypatch):
    whole = sa.run(make_bank("unit"), 8.0, sampler=sampler, **SHORT | {"n_chains": 70}, first_chain=3)
    monkeypatch.setattr(runner, "MAX_CPU_ENTRIES", 1)
    parts = sa.run(make_bank("unit"), 8.0, sampler=sampler, **SHORT | {"n_chains": 70}, first_chain=3)
    assert same(parts.samples, whole.samples)
    assert same(parts.energies, whole.energies)


@pytest.mark.parametrize("span", [True, False])
def test_steps_of_ula_have_the_variance_of_their_noise(span):
    """2 alpha/beta in each of 399 dimensions of 8 chains that start at zero: a standard error of 2.5 %, power 1."""
    alpha, beta = 0.1, 4.0
    bank = sa.MemoryBank(np.eye(1, 400))
    options = {"n_chains": 8, "start": np.zeros((8, 400)), "alpha": alpha, "rng": 0, "span": span}
    for n_steps in (1, 5):
        x = sa.run(bank, beta, n_steps=n_steps, keep=[n_steps], **options).samples[:, 0, 1:]
        expected = 2 * alpha / beta * (1 - (1 - alpha) ** (2 * n_steps)) / (1 - (1 - alpha) ** 2)
        assert x.var() == pytest.approx(expected, rel=5 * 0.025)


def test_starting_states_may_be_whole_numbers():
    bank, states = make_bank("unit"), np.arange(24).reshape(2, 12) % 3
    options = {"n_chains": 2, "n_steps": 1, "keep": [1], "rng": 0}
    found, expected = (sa.run(bank, 8.0, start=x, **options).samples for x in (states, states.astype(float)))
    assert same(found, expected)
    with pytest.raises(ValueError, match=r"start must be one of .* got an array of shape \(12,\)"):
        sa.run(bank, 8.0, start=np.ones(12), **options)


def test_idle_rows_are_zero():
    with NumpyStreams(0, range(3, 5), np.zeros(1)) as noise:
        placed = in_rows(np.ones((2, 4)), noise)
    np.testing.assert_array_equal(placed.sum(1), [0, 0, 0, 4, 4, 0, 0, 0])


def test_draws_of_a_schedule_show_its_first_and_last_beta():
    draws = sa.run(make_bank("unit"), [3.0, 4.0, 6.0, 9.0], n_chains=2, n_steps=4, warmup=0, thin=4, rng=0)
    assert repr(draws).endswith("beta=3 to 9, seed=0)")  # ULA accepts all moves


def test_a_schedule_of_whole_numbers_is_one_of_floats():
    bank, options = make_bank("unit"), {"n_chains": 2, "n_steps": 3, "keep": [3], "rng": 0}
    for betas in ([4, 8, 16], [Fraction(4), 8, Fraction(16)], torch.tensor([4, 8, 16])):
        draws = sa.run(bank, betas, **options)
        assert draws.settings.beta == [4.0, 8.0, 16.0]
        assert same(draws.samples, sa.run(bank, [4.0, 8.0, 16.0], **options).samples)
    with pytest.raises(ValueError, match="float64 can represent"):
        sa.run(bank, np.array([1.0, 2.0, 1e-320]), **options)


def test_a_run_that_does_not_fit_on_its_device_is_refused(monkeypatch):
    bank, options = make_bank("unit", "torch"), {"n_chains": 3, "n_steps": 6, "warmup": 0, "thin": 3}
    needed = 3 * (2 + 4) * 12 * 8  # chains, kept states and four more, dimensions, bytes
    monkeypatch.setattr(plan, "free_bytes", lambda patterns: needed)
    sa.run(bank, 8.0, **options)
    monkeypatch.setattr(plan, "free_bytes", lambda patterns: needed - 1)
    with pytest.raises(MemoryError, match=r"n_chains=3 with 2 kept states of d=12 need .* Run n_chains=2 at a time"):
        sa.run(bank, 8.0, **options)


@pytest.mark.parametrize("h", [0.1, 1.0, 1.9])
def test_an_oscillator_outside_the_span_has_its_exact_stationary_law(h):
    """Splitting BAOAB in a quadratic well: position 1/beta, momentum (1 − h²/4)/beta, without a correlation."""
    beta, bank = 5.0, sa.MemoryBank(np.eye(1, 2))
    sampler = Underdamped(Space(bank, None, 2), UnderdampedOptions(step_size=h, friction=1.5))
    outside = OscillatorComplement(np.zeros((1, 2)), np.zeros((1, 2))).advance(*sampler._linear_step(beta), 3000)
    found = outside.var_x, outside.covariance, outside.var_p
    np.testing.assert_allclose(found, (1 / beta, 0.0, (1 - h**2 / 4) / beta), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outside[2:6], 0.0, atol=1e-9)


def test_steps_of_an_oscillator_multiply_and_their_noise_adds_up():
    """With a step A of position and momentum and its noise b: A³, and Σ Aᵏ b bᵀ Aᵏᵀ over three steps."""
    sampler = Underdamped(Space(sa.MemoryBank(np.eye(1, 2)), None, 2), UnderdampedOptions(step_size=0.7, friction=0.4))
    (xx, xp, px, pp), b = sampler._linear_step(5.0)
    A = np.array([[xx, xp], [px, pp]])
    outside = OscillatorComplement(np.zeros((1, 2)), np.zeros((1, 2))).advance((xx, xp, px, pp), b, 3)
    np.testing.assert_allclose(outside[2:6], np.linalg.matrix_power(A, 3).ravel(), rtol=1e-12)
    noise = [np.linalg.matrix_power(A, k) @ b for k in range(3)]
    covariance = sum(np.outer(one, one) for one in noise)
    np.testing.assert_allclose(outside[6:], (covariance[0, 0], covariance[0, 1], covariance[1, 1]), rtol=1e-12)


def test_an_underdamped_step_must_be_stable():
    with pytest.raises(ValueError, match="step_size must be below 2, where steps become unstable; got 2"):
        UnderdampedOptions(step_size=2.0)
    with pytest.raises(ValueError, match="friction must be"):
        UnderdampedOptions(friction=0.0)
    assert UnderdampedOptions(step_size=1.99).step_size == 1.99


def test_misspelt_arguments_get_a_suggestion():
    with pytest.raises(TypeError, match=r"no argument 'n_chain'.* Did you mean 'n_chains'"):
        sa.run(np.eye(3), 2.0, n_chain=3)
    with pytest.raises(TypeError, match=r"no argument 'alhpa'.* Did you mean 'alpha'\?$"):
        sa.run(np.eye(3), 2.0, alhpa=0.1)
    with pytest.raises(ValueError, match=r"got 'malla'\. Did you mean 'mala'\?$"):
        sa.run(np.eye(3), 2.0, sampler="malla")
    for name in inspect.signature(sa.run).parameters:
        with pytest.raises(TypeError, match=f"Did you mean .*'{name}'"):
            sa.run(np.eye(3), 2.0, **{f"{name}_": 3})
