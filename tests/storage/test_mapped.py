"""Banks in files: errors at opening, reads, and agreement with banks in memory."""

import inspect
import math
import tracemalloc

import numpy as np
import pytest

import stochattn as sa
from stochattn import MemoryBank, bounds, conditioning, metrics, neighbors, temperature
from stochattn import energy as E
from stochattn.core import temperature as likelihood
from stochattn.core import temperature as probes
from stochattn.core.temperature import LeaveOneOut
from stochattn.samplers import draw
from stochattn.samplers.base import ChainAttention
from stochattn.storage import blockwise, mapped
from stochattn.storage.blockwise import slices
from stochattn.storage.mapped import MappedRows


def saved(tmp_path, X, name="bank.npy"):
    np.save(tmp_path / name, X)
    return tmp_path / name


def memories(K=300, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((K, d))


class Reading:
    """Counts the rows that are read from a memory map."""

    def __init__(self, bank):
        self.bank, self.rows = bank, 0
        inner, outer = bank.patterns, self

        class Counted(MappedRows):
            def __getitem__(self, index):
                got = super().__getitem__(index)
                outer.rows += len(got)
                return got

        counted = Counted(inner.base if isinstance(inner, MappedRows) else inner)
        bank.__dict__["patterns"] = counted


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", np.int16, np.uint8, np.bool_])
def test_a_file_agrees_with_the_bank_in_memory(tmp_path, dtype):
    X = np.round(3 * memories()).astype(dtype)
    X[:, 0] = 1
    path = saved(tmp_path, X)
    bank, plain = MemoryBank.open(path), MemoryBank(X)
    assert bank.patterns.dtype == plain.patterns.dtype
    assert (bank.K, bank.d, bank.M, bank.rank) == (plain.K, plain.d, plain.M, plain.rank)
    assert repr(bank) == repr(plain)
    np.testing.assert_array_equal(bank.norms_squared, plain.norms_squared)
    np.testing.assert_array_equal(bank.patterns[[7, 3]], plain.patterns[[7, 3]])
    np.testing.assert_allclose(bank.sigma_max, plain.sigma_max, rtol=1e-6)
    np.testing.assert_allclose(bank.coordinates @ bank.basis.T, X.astype(float), atol=1e-5)
    x = memories(4)
    for f in (E.energy, E.attend, E.score, E.log_density, E.entropy):
        np.testing.assert_allclose(f(x, bank, 2.0), f(x, plain, 2.0), rtol=2e-4, atol=1e-4)
    for f in (metrics.novelty, lambda x, bank: neighbors.nearest_memory(x, bank)[0]):
        np.testing.assert_allclose(f(x, bank), f(x, plain), rtol=1e-5, atol=1e-6)
    for mine in (bank, MemoryBank(np.load(path, "r"))):
        drawn = draw(mine, 2.0, 50, 3)
        assert np.array_equal(drawn, draw(plain, 2.0, 50, 3))
        assert drawn.dtype == plain.patterns.dtype
    options = {"n_chains": 3, "n_steps": 6, "warmup": 0, "thin": 3, "rng": 1}
    np.testing.assert_allclose(
        sa.run(bank, 2.0, **options).samples, sa.run(plain, 2.0, **options).samples, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_conditions_of_a_file_agree_with_the_bank_in_memory(tmp_path, dtype):
    X = memories().astype(dtype)
    bank, plain, x = MemoryBank.open(saved(tmp_path, X)), MemoryBank(X), memories(4)
    kept = np.arange(10, 290, 3)
    for change in (
        lambda b: conditioning.subset(b, kept),
        lambda b: conditioning.subset(b, kept).active,
        lambda b: conditioning.weight(b, np.arange(300.0)),
        lambda b: conditioning.equalize(b, 2.0),
        lambda b: b.normalized(),
        lambda b: b.normalized().remove([0, 5]),
    ):
        mine, theirs = change(bank), change(plain)
        assert mapped.is_mapped(mine.patterns)
        np.testing.assert_allclose(E.log_density(x, mine, 2.0), E.log_density(x, theirs, 2.0), rtol=1e-5, atol=1e-5)
        assert np.array_equal(draw(mine, 2.0, 20, 0), draw(theirs, 2.0, 20, 0))
    mine, theirs = (conditioning.condition(b, {3: 0.5, 1: -1.0}, 2.0) for b in (bank, plain))
    np.testing.assert_allclose(
        E.log_density(x[:, :3], mine, 2.0), E.log_density(x[:, :3], theirs, 2.0), rtol=1e-5, atol=1e-5
    )
    again = conditioning.condition(conditioning.subset(mine, kept).active, {0: 0.1}, 2.0)
    expected = conditioning.condition(conditioning.subset(theirs, kept).active, {0: 0.1}, 2.0)
    np.testing.assert_array_equal(again.patterns[:], expected.patterns)
    np.testing.assert_allclose(again.log_r, expected.log_r, rtol=1e-5, atol=1e-5)


KINDS = {
    "plain": lambda bank: bank,
    "mask": lambda bank: conditioning.subset(bank, np.arange(10, 290, 3)),
    "clamp": lambda bank: conditioning.condition(bank, {3: 0.5, 1: -1.0}, 2.0),
    "normalized": lambda bank: bank.normalized(),
}
OF_STATES = {  # every public function of a bank and states; the others are listed below
    E: ("energy", "table_energy", "weights", "attend", "score", "log_density", "hessian", "entropy", "retrieve"),
    metrics: ("max_cosine", "novelty", "mean_energy", "share_below_zero", "near_copies", "summarize"),
    neighbors: ("nearest_memory",),
    bounds: ("energy_lower_bound",),
}
OF_A_BANK = {
    E: ("mixture_log_weights",),
    metrics: (),
    neighbors: ("neighbor_distances",),
    bounds: (
        *("sigma_squared", "lipschitz", "dissipativity", "convexity_threshold"),
        *("strong_convexity", "potential_lipschitz", "condition_number"),
    ),
}
NOT_OF_A_BANK = {
    E: {"attends_in_blocks", "inner_products"},
    metrics: {"diversity", "frechet_diagonal", "cosine_novelty", "over_chains"},
    neighbors: {
        "nearest_index",
        "nearest_rows",
        "nearest_distances",
        "have_duplicates",
        "k_nearest",
        "spaced_indices",
        "as_rows",
        "rows_in_float64",
    },
    bounds: {"snr", "critical_snr"},
}


def public_functions(module):
    return {
        n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__ and n[0] != "_"
    }


def test_all_public_functions_are_tested():
    for module in (E, metrics, neighbors, bounds):
        assert public_functions(module) == {*OF_STATES[module], *OF_A_BANK[module], *NOT_OF_A_BANK[module]}


def everything(bank, x):
    """The results of all functions of energy, metrics, neighbors and bounds for a bank, by name."""
    found = {}
    for module in (E, metrics, neighbors, bounds):
        for name in (*OF_STATES[module], *OF_A_BANK[module]):
            f = getattr(module, name)
            options = inspect.signature(f).parameters
            states = (x[None],) if name == "summarize" else (x,) if name in OF_STATES[module] else ()
            given = {"beta": 2.0} if "beta" in options else {}
            found[name] = f(*states, bank, **given)
            if "centred" in options:
                found[f"{name}, centred"] = f(bank, **given, centered=True)
    for name in ("weights", "attend", "retrieve"):
        found[f"{name}, hard"] = getattr(E, name)(x, bank, math.inf)
    found["values"] = E.attend(x, bank, 2.0, np.arange(2.0 * bank.K).reshape(-1, 2))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16])
@pytest.mark.filterwarnings("ignore:retrieve stopped")
def test_every_function_of_a_file_agrees_with_the_bank_in_memory(tmp_path, kind, dtype):
    X = (10 * memories()).astype(dtype) if dtype is np.int16 else memories().astype(dtype)
    mine, theirs = KINDS[kind](MemoryBank.open(saved(tmp_path, X))), KINDS[kind](MemoryBank(X))
    x = memories(4, mine.d, seed=1)
    found, expected = everything(mine, x), everything(theirs, x)
    rtol = 1e-9 if mine.patterns.itemsize == 8 else 2e-4
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=rtol, atol=rtol, err_msg=name)


def test_memories_are_normalised_again(tmp_path):
    X = memories() * np.arange(1, 301)[:, None]
    for dtype in (np.float16, np.float32):
        bank = MemoryBank.open(saved(tmp_path, X.astype(dtype)))
        units = X.astype(dtype).astype(float)
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        for twice in (bank.normalized().normalized().patterns, bank.normalized().unit_patterns()):
            np.testing.assert_allclose(twice[:], units, rtol=1e-5, atol=1e-6)
        free = conditioning.condition(bank.normalized(), {0: 0.1}, 2.0).unit_patterns()[:]
        np.testing.assert_allclose(np.linalg.norm(free, axis=1), 1, rtol=1e-5)


def test_hessian_of_more_memories_than_a_block(tmp_path):
    X, x = memories(5000, 3), memories(2, 3, seed=1)
    p = np.exp(2.0 * x @ X.T)
    p /= p.sum(1, keepdims=True)
    mean = p @ X
    expected = [np.eye(3) - 2.0 * (X.T @ np.diag(q) @ X - np.outer(m, m)) for q, m in zip(p, mean, strict=True)]
    for bank in (MemoryBank(X), MemoryBank.open(saved(tmp_path, X))):
        np.testing.assert_allclose(E.hessian(x, bank, 2.0), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(E.weights(x, bank, 2.0), p, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_chains_do_not_copy_a_file_however_few_its_memories(tmp_path, dtype, masked):
    X = (0.1 * memories(40, 3000)).astype(dtype)
    bank, plain = MemoryBank.open(saved(tmp_path, X)), MemoryBank(X)
    if masked:
        bank, plain = (conditioning.subset(b, np.arange(30)).active for b in (bank, plain))
    tracemalloc.start()
    ChainAttention(bank)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * 3000 * 2  # the smallest copy
    options = {"n_chains": 2, "n_steps": 3, "warmup": 0, "thin": 1, "rng": 1, "span": False, "sampler": "mala"}
    found, expected = sa.run(bank, 20.0, **options), sa.run(plain, 20.0, **options)
    rtol = 1e-9 if dtype is np.float64 else 2e-4
    np.testing.assert_allclose(found.samples, expected.samples, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.energies, expected.energies, rtol=rtol)
    np.testing.assert_array_equal(found.basins, expected.basins)


def test_draws_read_the_rows_drawn_and_opening_reads_every_row_once(tmp_path):
    bank = MemoryBank.open(saved(tmp_path, memories(5000).astype(np.float16)))
    reading = Reading(bank)
    bank_of_few = conditioning.subset(bank, np.arange(100))
    reading.rows = 0
    sa.StochasticAttention(bank, 0.01).sample(7, rng=0)
    sa.StochasticAttention(bank_of_few, 0.01).sample(7, rng=0)
    assert reading.rows == 14
    assert bank.M > 0
    assert "K=5000" in repr(bank)
    conditioning.equalize(conditioning.weight(bank, np.ones(5000)), 3.0)
    assert reading.rows == 14
    mapped.check_norms(bank.patterns)
    assert reading.rows == 14 + 5000


def test_the_same_beta_by_every_rule(tmp_path):
    X = memories(60)
    for dtype in (np.float32, np.float16):
        bank, plain = MemoryBank.open(saved(tmp_path, X.astype(dtype))), MemoryBank(X.astype(dtype))
        for rule in ("natural", "inflection", "knee", "leave_one_out"):
            assert getattr(temperature, rule)(bank) == getattr(temperature, rule)(plain)
        assert temperature.for_novelty(bank, 0.1) == temperature.for_novelty(plain, 0.1)


@pytest.fixture
def everything_large(monkeypatch):
    monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)


@pytest.mark.parametrize("equal_weights", [False, True])
def test_leave_one_out_passes_over_a_large_file(tmp_path, everything_large, equal_weights):
    X, weights = memories(60), np.arange(1.0, 61.0)
    for bank, plain in (
        (MemoryBank.open(saved(tmp_path, X)), MemoryBank(X)),
        (MemoryBank.open(saved(tmp_path, X), np.log(weights)), MemoryBank(X, np.log(weights))),
    ):
        found, expected = (temperature.leave_one_out(b, equal_weights=equal_weights) for b in (bank, plain))
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("equal_weights", [False, True])
def test_leave_one_out_in_passes_is_that_of_memory(tmp_path, monkeypatch, equal_weights):
    X, log_r = memories(60), np.log(np.arange(1.0, 61.0))
    plain = LeaveOneOut(MemoryBank(X, log_r), equal_weights)
    monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)
    monkeypatch.setattr(likelihood, "blocks", lambda K, d: slices(K, 7))
    passes = LeaveOneOut(MemoryBank.open(saved(tmp_path, X), log_r), equal_weights)
    assert passes.in_passes
    assert not plain.in_passes
    betas = np.linspace(-2.0, 3.0, 7)
    np.testing.assert_allclose(passes.losses(betas), plain.losses(betas), rtol=1e-12)
    best = plain.minimum(-3.0, 6.0)
    for below, above in ((0.1, 3.0), (3.0, 0.1), (1.0, 1.0)):  # also near the ends of the range
        assert passes.minimum(best - below, best + above) == pytest.approx(best, abs=1e-5)


def test_leave_one_out_of_a_small_file_has_the_digits_of_memory(tmp_path):
    X = memories(60)
    assert temperature.leave_one_out(MemoryBank.open(saved(tmp_path, X))) == temperature.leave_one_out(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_operations_that_would_copy_a_large_file_are_errors(tmp_path, everything_large, dtype):
    bank = MemoryBank.open(saved(tmp_path, memories().astype(dtype)))
    with pytest.raises(ValueError, match=r"Gram matrix of K=300 memories is K² numbers, 0 GiB. Take fewer"):
        bank.gram  # noqa: B018
    for call in (
        lambda: bank.add(np.zeros((1, 5))),
        lambda: temperature.inflection(bank),
        lambda: temperature.for_novelty(bank, 0.1),
        lambda: temperature.novelty_at(bank, 3.0),
        lambda: bounds.lipschitz(bank, 3.0, centered=True),
    ):
        with pytest.raises(ValueError, match=r"would copy the whole file of memories, 300 rows of 5"):
            call()
    wide = MemoryBank.open(saved(tmp_path, memories(6, 40).astype(dtype)))
    with pytest.raises(ValueError, match="span=False"):
        sa.run(wide, 2.0, n_steps=2, warmup=0, thin=1)
    assert sa.run(wide, 2.0, n_steps=2, warmup=0, thin=1, span=False, rng=0).samples.shape == (30, 2, 40)


def test_the_natural_beta_of_a_large_bank(monkeypatch):
    """A few passes with fewer draws agree with the full computation within standard errors."""
    X = memories(1500, 30)
    for rows in (X / np.linalg.norm(X, axis=1, keepdims=True), 2 + 0.1 * X):
        exact = temperature.natural(rows, equal_weights=True)
        monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)
        streamed = temperature.natural(rows, equal_weights=True)
        monkeypatch.undo()
        # 512 draws: 2.5/√(2·30·512) = 1.4 %; 256 of the 1500 neighbours' distances, whose spread is 10 %: 1.7 %.
        assert streamed == pytest.approx(exact, rel=0.06)
        assert streamed != exact


def test_the_natural_beta_does_not_depend_on_how_many_draws_fit(monkeypatch, everything_large):
    X = memories(1500, 30)
    whole = temperature.natural(X, equal_weights=True)
    monkeypatch.setattr(probes, "MAX_NUMBERS", 2 * 512 * 30)  # two betas at a time, and one at the end
    assert temperature.natural(X, equal_weights=True) == pytest.approx(whole, rel=1e-9)
    taken = []
    nearest_memory = probes.nearest_memory
    monkeypatch.setattr(probes, "nearest_memory", lambda x, bank: taken.append(len(x)) or nearest_memory(x, bank))
    temperature.natural(X, equal_weights=True)
    assert taken[:5] == [2, 2, 2, 2, 1]


def test_neighbours_in_blocks_agree_with_brute_force(everything_large):
    X = memories(5000, 3)
    X[4500] = X[20]
    gaps = np.sqrt(np.square(X[[0, 20, 4999]][:, None] - X).sum(-1))
    gaps[[0, 1, 2], [0, 20, 4999]] = np.inf
    found = neighbors.neighbor_distances(MemoryBank(X))
    np.testing.assert_allclose(found[[0, 20, 4999]], gaps.min(1), rtol=1e-12)
    assert found[4500] == 0
    assert len(neighbors.neighbor_distances(MemoryBank(X), max_rows=10)) == 10


def test_span_of_many_memories():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 3)) @ rng.standard_normal((3, 6))
    bank = MemoryBank(X)
    assert bank.rank == 3
    np.testing.assert_allclose(X @ bank.basis @ bank.basis.T, X, atol=1e-10)
    assert bank.sigma_max == pytest.approx(np.linalg.norm(X, 2))
    late = np.zeros((9000, 2))
    late[:, 0], late[-1, 1] = 1, 1e-3  # only the last memory has the second direction
    assert MemoryBank(late).rank == 2
    assert MemoryBank(rng.standard_normal((9000, 6))).rank == 6
    assert bounds.lipschitz(bank, 1.0) > 0


def test_the_span_takes_few_memories_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 20))
    monkeypatch.setattr(blockwise, "QR_NUMBERS", 20 * 33)  # 33 memories a step, and a part of that at the end
    bank = MemoryBank(X)
    assert bank.rank == 4
    np.testing.assert_allclose(X @ bank.basis @ bank.basis.T, X, atol=1e-10)
    long = MemoryBank(np.tile(X, (20, 1))).active
    tracemalloc.start()
    assert long.basis.shape == (20, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000  # a step is 53 rows of 20, 8 kB; the triangles of all 304 steps would be 970 kB


def header(shape, dtype="<f4", fortran=False):
    text = repr({"descr": dtype, "fortran_order": fortran, "shape": shape}).encode()
    text += b" " * (64 - (10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", ValueError, "is empty"),
        (b"a,b\n1,2\n", ValueError, "is not an .npy file. Memories are opened from a matrix that np.save wrote"),
        (b"PK\x03\x04rest", ValueError, r"is an archive \(.npz\)"),
        (b"\x93NUMPY", ValueError, "header that cannot be read"),
        (b"\x93NUMPY\x01\x00\x20\x00{'descr': nonsense", ValueError, "header that cannot be read"),
        (header((3, 2)) + bytes(23), ValueError, "is truncated: its header declares 3 rows of 2, .* bytes; it has"),
        (header((10**12, 784)), ValueError, "is truncated"),
        (header((3,)) + bytes(12), ValueError, r"non-empty matrix .* got shape \(3,\)"),
        (
            header((-3, 2)) + bytes(99),
            ValueError,
            "bank.npy has a header that cannot be read. Write it again with np.save",
        ),
        (header((-3, -2)) + bytes(99), ValueError, "header that cannot be read"),
        (header((True, 2)) + bytes(99), ValueError, "header that cannot be read"),
        (b"\x93NUMPY\x01\x00\x00\x20" + b"(" * 8192, ValueError, "bank.npy has a header that cannot be read"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"{'shape': (3, 2  ", ValueError, "header that cannot be read"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"{1: 2, 'a': 3}\n\n", ValueError, "header that cannot be read"),
        (header((0, 5)), ValueError, r"got shape \(0, 5\)"),
        (header((3, 2), fortran=True) + bytes(24), ValueError, r"C order.*np.ascontiguousarray"),
        (header((3, 2), "|O") + bytes(99), TypeError, "holds pickled objects"),
        (header((3, 2), "<c8") + bytes(99), TypeError, "must hold real numbers.* it holds complex64"),
        (header((3, 2), "<f16") + bytes(99), TypeError, "of at most 64 bits"),
        (header((3, 2), "<U4") + bytes(99), TypeError, "must hold real numbers"),
        (header((3, 2), "<M8[s]") + bytes(99), TypeError, "must hold real numbers"),
    ],
)
def test_files_that_are_rejected(tmp_path, content, error, message):
    path = tmp_path / "bank.npy"
    path.write_bytes(content)
    for call in (MemoryBank.open, sa.StochasticAttention):
        with pytest.raises(error, match=message) as caught:
            call(path)
        assert "\n" not in str(caught.value)


def test_folders_and_missing_files(tmp_path):
    with pytest.raises(OSError, match=r"cannot be read \(Is a directory\)"):
        MemoryBank.open(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none.npy cannot be read \(No such file or directory\)"):
        MemoryBank.open(str(tmp_path / "none.npy"))
    for wrong, shown in (
        (3.5, r"3\.5 \(float\)"),
        (b"bank.npy", r"b'bank.npy' \(bytes\)"),
        (None, r"None \(NoneType\)"),
    ):
        with pytest.raises(TypeError, match=f"path must name an .npy file, as a string or a pathlib.Path; got {shown}"):
            MemoryBank.open(wrong)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_rows_that_are_not_finite_are_named(tmp_path, dtype, wrong):
    X = memories(9000, 3).astype(dtype)
    X[8765, 2] = wrong
    path = saved(tmp_path, X)
    for call in (MemoryBank.open, lambda path: MemoryBank(np.load(path, "r"))):
        with pytest.raises(ValueError, match="row 8765 has NaN or an infinite number, the first in column 2"):
            call(path)


def test_norms_that_overflow_float32(tmp_path):
    path = saved(tmp_path, np.full((2, 3), 1e30, dtype=np.float32))
    with pytest.raises(ValueError, match="squared norms that float32 can represent; these are too large"):
        MemoryBank.open(path)
    path = saved(tmp_path, np.full((2, 3), 1e-30, dtype=np.float32))
    with pytest.raises(ValueError, match="these are too small"):
        MemoryBank.open(path)


def test_weights_of_an_opened_bank(tmp_path):
    bank = MemoryBank.open(saved(tmp_path, memories(3)), [0.0, -math.inf, 1.0])
    np.testing.assert_array_equal(bank.kept, [0, 2])
    with pytest.raises(ValueError, match="one entry for each of the K=3"):
        MemoryBank.open(tmp_path / "bank.npy", [0.0])


def test_rows_of_a_file_are_complete(tmp_path):
    bank = MemoryBank.open(saved(tmp_path, memories().astype(np.float16)))
    with pytest.raises(TypeError, match="read by whole rows"):
        bank.patterns[:, 0]
    assert bank.patterns[3].shape == (5,)
    order = [9, 2, 9, 0]
    np.testing.assert_array_equal(mapped.rows_at(bank.patterns, np.array(order)), bank.patterns[order])


def test_rows_drawn_are_read_in_blocks(tmp_path):
    X = memories(9000, 3).astype(np.float32)
    bank = MemoryBank.open(saved(tmp_path, X))
    order = np.random.default_rng(0).integers(0, 9000, 10_000)
    np.testing.assert_array_equal(mapped.rows_at(bank.patterns, order), X[order])
    wide = MemoryBank.open(saved(tmp_path, np.zeros((100, 2**17), dtype=np.float16)))
    tracemalloc.start()
    mapped.rows_at(wide.patterns, np.arange(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 100 * 2**17 * 4  # the result, and one block (64 rows) as read and converted


def test_a_run_that_runs_out_of_memory_says_so(tmp_path, monkeypatch):
    """Converted rows of a file have no device of their own."""

    def attend(self, xi, beta, factor):
        raise MemoryError("Unable to allocate 2.00 GiB")

    monkeypatch.setattr(ChainAttention, "attend", attend)
    bank = MemoryBank.open(saved(tmp_path, memories().astype(np.float16)))
    assert isinstance(bank.patterns, MappedRows)
    with pytest.raises(MemoryError, match=r"4 chains on K=300 memories do not fit on cpu: Unable to allocate"):
        sa.run(bank, 2.0, n_chains=4, n_steps=6, warmup=0, thin=3, rng=0)
