"""The cost model of sharded banks, and the page on measured scaling."""

import numpy as np
import pytest

from benchmarks.speed import ranks, scale
from benchmarks.speed.cost import Machine, Measured, fitted, relative_error, terms

MACHINE = Machine(step=1e-3, flop=2e-11, byte=1e-10, number=5e-8, message=3e-4, sent=1e-9)
SIZES = [(w, K, d, n) for w in (1, 2, 4) for K in (10_000, 100_000, 10**6) for d in (64, 256) for n in (8, 512)]


def runs_on(machine, noise=0.0):
    rng = np.random.default_rng(0)
    return [
        Measured(*size, machine.seconds(*size, cores=2) * np.exp(noise * rng.standard_normal()), 2) for size in SIZES
    ]


def test_the_fit_finds_the_machine_that_made_the_times():
    assert fitted(runs_on(MACHINE)) == pytest.approx(MACHINE, rel=1e-6)
    rough = fitted(runs_on(MACHINE, noise=0.1))
    check = Measured(2, 300_000, 96, 64, MACHINE.seconds(2, 300_000, 96, 64, 2), 2)
    assert abs(relative_error(rough, check)) < 0.1
    assert min(rough) >= 0


def test_terms_of_a_step():
    """One process, two, and four that take turns on two cores; the bytes that are read are shared by the cores."""
    K, d, n = 1000, 10, 6
    assert terms(1, K, d, n, cores=2) == [1, 4 * n * K * d, 4 * K * d, n * d, 0, 0]
    assert terms(2, K, d, n, cores=2) == [1, 2 * n * K * d, 4 * K * d, n * d, 2, 4 * n * (d + 2)]
    assert terms(4, K, d, n, cores=2) == [2, 2 * n * K * d, 4 * K * d, 2 * n * d, 12, 12 * n * (d + 2)]
    assert terms(2, K, d, n, cores=2, machines=2)[2] == 2 * K * d


def test_efficiency():
    assert scale.Scaling("", "", "strong", [8.0, 5.0, 4.0]).efficiency == [1.0, 0.8, 0.5]
    assert scale.Scaling("", "", "weak", [2.0, 2.5]).efficiency == [1.0, 0.8]


def test_the_page_states_what_was_measured(tmp_path):
    runs = runs_on(MACHINE)
    scalings = [scale.Scaling("ranks", "some work", "strong", [8.0, 5.0, 4.0])]
    check = runs[0]._replace(seconds=runs[0].seconds / 1.25)
    about = {"machine": "a <machine>", "cores": 2, "date": "today"}
    scale.Results(about, scalings, runs, check, fitted(runs)).write(tmp_path / "scaling.json")
    page = scale.page(scale.Results.read(tmp_path / "scaling.json"))
    assert "| ranks | strong | some work | 8 s | 5 s | 4 s | 80%, 50% |" in page
    assert "predicted +25 %" in page
    assert "50 Gflop/s for each core" in page
    assert "10.0 GB/s for the machine" in page
    assert "{" not in page
    # 256 machines of 64 cores: 4 · 1,024 · 10⁹ · 768 flop at 50 Gflop/s and core, and 510 messages of 0.3 ms.
    row = next(line for line in page.splitlines() if line.startswith("| 256 |"))
    assert [cell.strip() for cell in row.split("|")[2:4]] == ["12 GB", f"{4 * 1024 * 768e9 / (256 * 64 * 50e9):.2g} s"]


def test_steps_are_timed_on_processes():
    """Two ranks measure two sizes. How long they take is not tested: machines are busy at times."""
    small, large = ranks.measured_steps(2, [(500, 8, 8), (30_000, 8, 8)], min_seconds=0.01)
    assert small[:4] == (2, 500, 8, 8)
    assert large[:4] == (2, 30_000, 8, 8)
    assert min(small.seconds, large.seconds) > 0


def test_a_rank_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match="a rank of 1 failed with exit code 1"):
        ranks.measured_steps(1, [(0, 8, 8)])
