"""The code of the benchmarks on tiny shapes: laws of baselines, targets, times, JSON and the page."""

import math
import signal

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.speed import baselines, chains, exact, growth, large_banks, limits, torch_baselines
from benchmarks.speed.machine import core_limit, other_work_share
from benchmarks.speed.measured import Limit, Results, Row, Task
from benchmarks.speed.page import write_page
from benchmarks.speed.shapes import BETA, Shape, memories
from benchmarks.speed.timing import Candidate, best_threads, ratio, side_by_side, slope_seconds, work_units
from benchmarks.speed.wording import details, figure, target, verdict

K, D, CHAINS = 20, 30, 500


def torch_baseline(make):
    torch = pytest.importorskip("torch")
    return lambda X, alpha, n, sampler: make(torch.from_numpy(np.array(X)), alpha, n, sampler)


def blackjax_baseline(X, alpha, n, sampler):
    pytest.importorskip("blackjax")
    return baselines.blackjax_mala(X, alpha, n)


BASELINES = [
    ("chain by chain", baselines.chain_by_chain, "ula"),
    ("chain by chain", baselines.chain_by_chain, "mala"),
    ("numpy", baselines.vectorized, "ula"),
    ("numpy", baselines.vectorized, "mala"),
    ("torch", torch_baselines.torch_eager, "ula"),
    ("torch", torch_baselines.torch_eager, "mala"),
    ("blackjax", blackjax_baseline, "mala"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "make", "sampler"), BASELINES)
def test_baselines_have_the_law_of_their_sampler(name, make, sampler):
    """In a basin beta ‖xi − m‖² / d has mean 1 (MALA), or 1/(1 − alpha/2) (ULA), and standard error √(2 / (n d)).

    At alpha = 0.4 the two differ by 25 %; a missing Metropolis correction or an error of 5 % in the noise scale fails.
    """
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((D, K)))[0].T.astype(np.float32)  # orthogonal: basins do not mix
    n, steps = (60, 100) if name == "chain by chain" else (CHAINS, 100)
    alpha = 0.4
    make = torch_baseline(make) if name == "torch" else make
    states = np.asarray(make(np.ascontiguousarray(X), alpha, n, sampler)(steps), dtype=np.float64)
    squares = ((states - X[np.arange(n) % K]) ** 2).sum(1)
    expected = 1 / (1 - alpha / 2) if sampler == "ula" else 1.0
    assert BETA * squares.mean() / D == pytest.approx(expected, abs=5 * math.sqrt(2 / (n * D)))


def test_blackjax_accepts_as_often_as_ours():
    pytest.importorskip("blackjax")
    import stochattn as sa

    X = memories(K, D)
    advance = baselines.blackjax_mala(X, 0.3, CHAINS)
    advance(200)
    ours = sa.run(X, BETA, sampler="mala", n_chains=CHAINS, n_steps=200, keep=[200], alpha=0.3, rng=0, progress=False)
    assert advance.acceptance() == pytest.approx(np.mean(ours.acceptance), abs=0.02)
    with pytest.raises(ValueError, match="multiple of 100"):
        advance(50)


def test_kernel_density_has_the_exact_law():
    X = memories(5, 40, np.float64)
    draws = exact.kernel_density(X)(4000)
    squares = ((draws[:, None] - X[None]) ** 2).sum(-1).min(1)
    assert BETA * squares.mean() / 40 == pytest.approx(1.0, abs=5 * math.sqrt(2 / (4000 * 40)))


def test_memories_do_not_depend_on_blocks(monkeypatch):
    monkeypatch.setattr("benchmarks.speed.shapes.BLOCK", 7)
    rows = memories(20, 6)
    assert rows.shape == (20, 6)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(20), abs=1e-6)
    assert not rows.flags.writeable
    assert len(np.unique(rows[:, 0])) == 20


def test_targets_and_verdicts():
    above = Row("chains", "w", "a", 2.0, target=3)
    assert (above.met, verdict(above), target(above)) == (False, "NO", "≥ 3x")
    below = Row("large", "w", "a", 200.0, "MB", 256, at_most=True)
    assert (below.met, verdict(below), target(below)) == (True, "yes", "≤ 256 MB")
    assert Row("chains", "w", "a", None, target=3).met is None
    disturbed = Row("chains", "w", "a", 4.0, target=3, details="4 against 1", disturbed=0.4)
    assert (disturbed.met, verdict(disturbed)) == (None, "not evaluated")
    assert details(disturbed) == "4 against 1; disturbed: other processes used 40 % of the cores"
    assert [figure(value, "x") for value in (None, 0.5, 12.34, 1234.5)] == ["-", "0.5x", "12.3x", "1,234x"]
    assert figure(1.234e9, "rows/s") == "1.23e+09 rows/s"


def test_counts_and_ratios():
    assert ratio([4.0, 9.0, 100.0], [2.0, 3.0, 4.0]) == 3.0
    done = []
    assert work_units(Candidate(done.append, unit=100, max_work=100), 1.0) == 100
    assert done == [100]
    assert work_units(Candidate(lambda n: None, unit=7, max_work=50), 10.0) == 49  # at most `max_work`, in whole units
    times = side_by_side({"a": Candidate(done.append, max_work=1), "b": Candidate(done.append, max_work=1)}, 3, 0.0)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_the_slope_excludes_the_fixed_cost_of_a_run(monkeypatch):
    clock = [0.0]

    def run(n_steps):
        clock[0] += 5.0 + 0.25 * n_steps

    monkeypatch.setattr("benchmarks.speed.timing.time.perf_counter", lambda: clock[0])
    assert slope_seconds(run, target_seconds=1.0, max_steps=1000) == pytest.approx(0.25)


def test_other_work_excludes_this_process(monkeypatch):
    seconds = iter([(100.0, 10.0, 50.0), (118.0, 13.0, 60.0)])  # total 18, own 3, over 10 s
    monkeypatch.setattr("benchmarks.speed.machine._total_and_own_seconds", lambda: next(seconds))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with other_work_share() as share:
        assert share == []
    assert share == [0.75]


def test_a_limit_that_jax_ignores_is_named(monkeypatch, capsys):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(exact, "tasks", lambda quick, device: [])
    line = "OMP_NUM_THREADS=1 limits stochattn and NumPy, but not JAX, which has 2 cores. Unset it."
    for value, expected in (("1", line), ("2", None), ("", None)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert core_limit() == expected
        with pytest.raises(SystemExit):
            command.main(["--only", "exact"])
        assert (line in " ".join(capsys.readouterr().out.split())) == (expected is not None)


def test_threads_are_chosen_by_the_better_of_two_attempts(monkeypatch):
    for times, chosen in (([1.0, 3.0, 9.0, 3.0], 1), ([9.0, 3.0, 1.0, 3.0], 1), ([2.0, 9.0, 2.0, 1.0], None)):
        taken = iter(times)  # on one thread, on all, on one, on all
        monkeypatch.setattr("benchmarks.speed.timing.seconds", lambda work, taken=taken: next(taken))
        assert best_threads(lambda: None) == chosen


def test_slow_shapes_keep_the_last_state_only(monkeypatch):
    """The protocol keeps five states in 5,000 steps; five in 250 steps would cost twenty times as much per step."""
    kept = []

    def ours(bank, sampler, n_chains, keep):
        return lambda n_steps: kept.append(keep(n_steps))

    monkeypatch.setattr(chains, "ours", ours)
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    for shape, expected in ((Shape("slow", 1000, 1000), [250]), (Shape("fast", 6, 9), [2000, 2700, 3500, 4200, 4900])):
        kept.clear()
        chains.on_cpu(shape, "ula", 1, 0.001, n_chains=2)
        assert kept
        assert all(steps == expected for steps in kept)


def test_fitted_slopes():
    x = [1, 10, 100, 1000]
    assert growth.slope(x, [5.0, 5.0, 50.0, 500.0]) == pytest.approx(1.0)  # the upper half of the range
    assert growth.slope(x, [3.0] * 4) == pytest.approx(0.0, abs=1e-12)


def tiny_results():
    about = {"date": "2026-01-01", "device": "cpu", "quick": True, "machine": "a machine, 2 cores", "cores": 2}
    about |= {"memory_gb": 8.0, "load_at_start": 0.0, "python": "3.11", "blas": "openblas", "stochattn": "1"}
    about |= {"numpy": "2", "torch": None, "jax": None, "blackjax": None, "scikit-learn": "1"}
    results = Results(about)
    results.add(limits.on_cpu(1, size=64))
    results.add(chains.on_cpu(Shape("tiny", 6, 9), "ula", 1, 0.001, n_chains=2))
    results.add(exact.on_cpu(Shape("tiny", 6, 9), 1, 500))
    points = [(2, 6, d) for d in (4, 8, 16)]
    results.add(growth.curve("d", "d, dimensions", points, 2, 0.001, "cpu", results))
    return results


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_results_and_page_of_a_tiny_run(tmp_path):
    results = tiny_results()
    assert all(row.value > 0 for row in results.rows)
    assert {limit.name for limit in results.limits} >= {"products", "normals", "reading memory"}
    results.write(tmp_path / "performance.json")
    again = Results.read(tmp_path / "performance.json")
    assert (again.rows, again.limits, again.about) == (results.rows, results.limits, results.about)
    written = write_page(tmp_path)
    assert [path.name for path in written] == ["performance.md", "performance-ratios.png", "performance-growth.png"]
    page = written[0].read_text("utf-8")
    assert "a machine, 2 cores" in page
    assert f"| ULA, tiny (K 6, d 9) | {results.rows[0].against} |" in page
    assert "--quick`." in page
    assert all(path.stat().st_size > 5000 for path in written[1:])


def test_a_page_without_results_names_the_command(tmp_path):
    with pytest.raises(SystemExit, match="there are no results"):
        write_page(tmp_path)


def test_limits_scale_the_curves():
    results = Results(
        {}, limits=[Limit("products", 1e9, ""), Limit("normals", 1e6, ""), Limit("reading memory", 1e8, "")]
    )
    (curve,) = growth.curve("K", "K", [(3, 5, 10)], 1, 0.0001, "cpu", results)
    assert curve.x == [5]
    assert curve.series["products"] == [4 * 3 * 5 * 5 / 1e9]
    assert curve.series["normals"] == [3 * 5 / 1e6]
    assert curve.series["memory"] == [4 * 5 * 5 / 1e8]


def test_a_baseline_that_is_not_installed_gives_a_row(monkeypatch):
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    rows = chains.on_cpu(Shape("tiny", 6, 9), "mala", 1, 0.001, n_chains=2)
    lines = {row.against.split(" (")[0]: row for row in rows}
    assert lines["BlackJAX MALA"].value is None
    assert "jax, blackjax not installed" in lines["BlackJAX MALA"].details
    assert "torch not installed" in lines["eager torch"].details
    assert lines["vectorized NumPy"].value > 0


def test_ctrl_c_keeps_what_was_measured(monkeypatch, tmp_path, capsys):
    def interrupt(results):
        raise KeyboardInterrupt

    row = Row("chains", "first", "baseline", 3.0)
    plan = [Task("chains", "first", lambda results: [row]), Task("chains", "second", interrupt)]
    monkeypatch.setattr(chains, "tasks", lambda quick, device: plan)
    for given, expected in ((["--json", str(tmp_path / "found.json")], "partial results"), ([], "nothing was written")):
        with pytest.raises(SystemExit) as ended:
            command.main(["--only", "chains", *given])
        assert ended.value.code == 130
        assert expected in " ".join(capsys.readouterr().out.split())
    (found,) = Results.read(tmp_path / "found.json").rows
    assert found._replace(disturbed=0.0) == row


def test_an_interrupted_run_is_not_timed(monkeypatch):
    import stochattn as sa

    bank, run = sa.MemoryBank(memories(4, 3)), sa.run

    def interrupted(*arguments, on_keep=None, **options):
        return run(*arguments, on_keep=lambda step, states: signal.raise_signal(signal.SIGINT), **options)

    monkeypatch.setattr(sa, "run", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        chains.ours(bank, "ula", 2)(100)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("out of memory\nmore"), "failed: out of memory"),
        (MemoryError(), "failed: MemoryError"),
        (OSError(28, "No space left on device"), "failed: [Errno 28] No space left on device"),
    ],
)
def test_a_part_that_fails_is_a_row_of_the_table(monkeypatch, tmp_path, error, expected):
    def fail(results):
        raise error

    row = Row("exact", "after it", "baseline", 3.0)
    plan = [Task("exact", "large draw", fail), Task("exact", "after it", lambda results: [row])]
    monkeypatch.setattr(exact, "tasks", lambda quick, device: plan)
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "exact", "--json", str(tmp_path / "found.json")])
    assert ended.value.code == 1
    failed, after = Results.read(tmp_path / "found.json").rows
    assert (failed.value, failed.details) == (None, expected)
    assert after.value == 3.0


def test_a_programming_error_is_raised(monkeypatch):
    def mistaken(results):
        raise AttributeError("no such thing")

    monkeypatch.setattr(exact, "tasks", lambda quick, device: [Task("exact", "large draw", mistaken)])
    with pytest.raises(AttributeError, match="no such thing"):
        command.main(["--only", "exact"])


def test_bad_arguments_are_errors(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command.main(["--json", str(tmp_path / "no" / "x.json")])
    assert "--json must name a file in a folder that exists" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--jobs", "2"])
    assert "measurements of speed that run at the same time slow each other down" in capsys.readouterr().err


def test_large_banks_in_separate_processes():
    rows = large_banks.on_cpu(Shape("tiny", 300, 16), 1)
    assert [row.unit for row in rows] == ["%", "MB", "rows/s", "MB"]
    assert all(row.value > 0 for row in rows)
    rate, peak = large_banks.to_disk(1000, d=4)
    assert rate.value > 0
    assert 10 < peak.value < 2000


def test_a_repeated_part_replaces_the_earlier_one():
    about = {"complete": True, "date": "then"}
    earlier = Results(about, [Row("chains", "a", "b", 1.0), Row("layers", "c", "d", 2.0)], [Limit("x", 1.0, "y")])
    again = Results({"complete": True, "date": "now"}, [Row("layers", "c", "d", 3.0)])
    both = again.merged_with(earlier)
    assert [(row.part, row.value) for row in both.rows] == [("chains", 1.0), ("layers", 3.0)]
    assert both.limits == earlier.limits
    assert both.about == about
