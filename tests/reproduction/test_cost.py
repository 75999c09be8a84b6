"""The processor time of an experiment on a CPU, from trainings of a part of the epochs."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from paper import cost, report
from paper.baselines import training
from paper.baselines.vae import VAE
from paper.cli import app
from paper.data import Data
from paper.experiments import vae_grid
from paper.fingerprint import code_digest
from paper.results import Result

ROWS = np.random.default_rng(0).standard_normal((6, 9))
EPOCHS = 500  # of each of the two phases


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by one second in each epoch, and by 100 s in each experiment besides."""
    state = {"seconds": 0.0, "epochs": 0}

    def epochs(network, loss, rows, epochs, label, batch):
        state["seconds"] += epochs
        state["epochs"] += epochs
        return 0.5

    def run(data, seed, quick):
        state["seconds"] += 100
        VAE(ROWS, seed, latent=2, hidden=(4,), epochs=EPOCHS)
        return Result()

    monkeypatch.setattr(training, "_train", epochs)
    monkeypatch.setattr(cost.time, "process_time", lambda: state["seconds"])
    monkeypatch.setattr(vae_grid, "run", run)
    return state


def test_a_part_of_the_epochs_is_run_and_multiplied(clock):
    found = cost.measure("vae-grid", Data(None), 0)
    assert clock["epochs"] == 1 + cost.MIN_STEPS
    assert found == cost.Cost(code_digest("vae-grid"), training=2 * EPOCHS, other=100, measured=cost.MIN_STEPS)


def test_epochs_of_many_steps_are_few(clock):
    with cost._short_trainings() as trained:
        VAE(np.tile(ROWS, (50, 1)), 0, latent=2, hidden=(4,), epochs=EPOCHS, batch=10)
    assert clock["epochs"] == 1 + cost.MIN_EPOCHS
    assert (trained.whole, trained.timed, trained.spent) == (2 * EPOCHS, cost.MIN_EPOCHS, 1 + cost.MIN_EPOCHS)


def test_short_trainings_neither_use_the_cache_nor_stay(clock, tmp_path):
    sound = training._train
    for _ in range(2):  # a second training would come from the cache
        cost.measure("vae-grid", Data(None), 0)
    assert clock["epochs"] == 2 * (1 + cost.MIN_STEPS)
    assert not (tmp_path / "cache").exists()
    assert training._train is sound


def test_the_command_adds_to_the_file_and_names_unknown_experiments(clock, tmp_path):
    place = tmp_path / report.COST
    place.write_text('{"mnist": {"code": "x", "training": 1, "other": 2, "measured": 3}}')
    done = CliRunner().invoke(app, ["cost", "vae-grid", "--out", str(tmp_path)])
    assert done.output == "vae-grid: 1000 s of training, from 20 s; 100 s besides\n"
    assert set(json.loads(place.read_text())) == {"mnist", "vae-grid"}
    assert "there is no experiment 'nothing'" in CliRunner().invoke(app, ["cost", "nothing"]).output


def record(code, **values):
    return {
        "code": code,
        "tables": [],
        "figures": [],
        "seconds": 900.0,
        "learned_seconds": 0.0,
        "machine": "2 CPU cores",
        **values,
    }


def test_the_page_has_the_seconds_of_one_seed_on_a_cpu():
    records = {
        "mala": record("a", processor_seconds=600.0, seeds=[0, 1000]),
        "mnist": record("b", processor_seconds=50.0, learned_seconds=40.0, machine="16 CPU cores, NVIDIA H200"),
    }
    costs = {"mnist": {"code": "b", "training": 1200.0, "other": 60.0, "measured": 6.0}}
    page = "\n".join(report._summary(records, costs))
    assert "| mala | 0 | 0 | 0 | 0 | 0 | 0 | 2 | 300 | 0 |" in page
    assert "| mnist | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 60 | 1200 |" in page
    assert "takes 6 minutes of one core, and its training 20 more" in page
    assert "about 3 minutes if the trained networks are in the cache, and 13 minutes if not" in page
    assert "mnist (40 s)" in page


def test_training_on_a_gpu_says_nothing_about_a_cpu():
    gpu = record("b", processor_seconds=50.0, learned_seconds=40.0, machine="16 CPU cores, NVIDIA H200")
    page = "\n".join(report._summary({"mnist": gpu}, {}))
    assert "| mnist | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 10 | – |" in page
    assert "without the training of mnist, which was not measured on a CPU." in page


def test_costs_of_other_code_are_not_shown():
    records = {"mnist": record("b", processor_seconds=50.0, learned_seconds=40.0)}
    page = "\n".join(report._summary(records, {"mnist": {"code": "a", "training": 1.0, "other": 1.0, "measured": 1.0}}))
    assert "| mnist | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 10 | 40 |" in page
    assert "paper cost" not in page
