"""Every table and figure of the paper has an experiment, and every published value is read."""

import ast
import json
from pathlib import Path

import pytest

import paper
from paper.catalogue import EXPERIMENTS
from paper.expected import expected

# The labels in the paper's source.
TABLES = [
    "mnist-baselines",
    "protein-main",
    "mnist-digit1",
    "mnist-digit8",
    "temp-spectrum-digit8",
    "single-chain",
    "protein",
    "finance-summary",
    "olivetti-recovery",
    "olivetti-betasweep",
    "stepsize-sweep",
    "noise-control",
    "scaling",
    "mala-generation",
    "full-vae",
    "multihead",
]
FIGURES = [
    "mnist-baselines",
    "olivetti",
    "phase-diagram",
    "mnist-digit1-grids",
    "mnist-digit8-grids",
    "temp-spectrum-digit8",
    "generation-regimes",
    "trajectories",
    "protein",
    "protein-entropy",
    "finance-qq",
    "finance-correlation",
    "finance-tails",
    "finance-acf-combined",
    "stepsize-sweep",
    "noise-control",
    "scaling",
]  # and "experiments", in two parts
LEARNED = ("VAE", "GMM", "DDPM")
RESULTS = Path(__file__).parents[2] / "docs" / "reproduction" / "results"


def test_all_sixteen_tables_and_eighteen_figures_are_covered():
    tables = [table for experiment in EXPERIMENTS.values() for table in experiment.tables]
    figures = [figure for experiment in EXPERIMENTS.values() for figure in experiment.figures]
    assert len(TABLES) == 16
    assert set(TABLES) <= set(tables)
    assert {*FIGURES, "experiments-a", "experiments-b"} <= set(figures)
    assert len(tables) == len(set(tables))
    assert len(figures) == len(set(figures))


def test_each_figure_of_the_paper_is_shown_with_the_claim_of_its_caption_and_what_we_find():
    shown = {}
    for path in RESULTS.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        shown |= {figure["name"]: figure for figure in record.get("figures", ())}
    for name in {*FIGURES, "experiments-a", "experiments-b"}:
        for part in ("claim", "finding"):
            assert shown[name][part].endswith("."), (name, part)
            assert "nan" not in shown[name][part]


def test_each_table_of_the_paper_has_its_published_values():
    found = {}
    for experiment in EXPERIMENTS.values():
        if Path(experiment.module.__file__).with_suffix(".toml").is_file():
            found |= expected(experiment.module.__file__)
    assert set(TABLES) <= set(found)
    assert sum(len(row) for name in TABLES for row in found[name].rows.values()) == 393


def test_bands_are_for_learned_baselines_and_other_prices_only():
    for name, experiment in EXPERIMENTS.items():
        if not Path(experiment.module.__file__).with_suffix(".toml").is_file():
            continue
        for table in expected(experiment.module.__file__).values():
            for row, cells in table.rows.items():
                for quantity, published in cells.items():
                    if published.band is not None:
                        assert published.why
                        assert name in ("returns", "sequence", "vae-grid") or any(
                            learned in f"{row} {quantity}" for learned in LEARNED
                        ), (row, quantity)


@pytest.mark.parametrize("path", sorted(Path(paper.__file__).parent.rglob("*.py")), ids=lambda p: p.stem)
def test_the_reproduction_uses_public_names_only(path):
    public = {
        "stochattn",
        "stochattn.kinds.proteins.sequences",
        "stochattn._backend.files",
        "stochattn._backend.parallel",
        "stochattn.samplers.langevin",  # for a planted fault
        *(
            f"stochattn.{name}"
            for name in ["bounds", "conditioning", "energy", "multihead", "metrics", "neighbors", "temperature"]
        ),
    }
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in modules:
            if module.split(".")[0] == "stochattn":
                assert module in public
                assert not name.startswith("_")
