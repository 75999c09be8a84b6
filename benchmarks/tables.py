"""Rows from the table generator and from baselines, evaluated on held-out rows.

python -m benchmarks.tables [--quick] [--seeds 5] [--variants] [--sdv]

All methods except those of SDV use the same codec (rank-to-normal, one-hot) to encode and decode, so the comparison is
between distributions and not between encodings.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stochattn as sa
from benchmarks.table_data import Task, split, tasks
from stochattn.core.neighbors import nearest_distances
from stochattn.evaluation import held_out_metrics
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.generator.covariance import JITTER, JITTER_OF_SEARCH, CovarianceKernels
from stochattn.kinds.tables.generator.neighborhoods import choose_width
from stochattn.kinds.tables.measures import copies, correlation_error, distances

N = 1000
CLASSES = ("category", "boolean")


class Generated(NamedTuple):
    """New rows, and the log density of features (n, p) -> (n,) if the method has one."""

    frame: Any
    density: Callable[[np.ndarray], np.ndarray] | None = None


Method = Callable[[sa.Synthesizer, int, np.random.Generator], Generated]


def replay(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    codec = synth.codec
    return Generated(codec.take(codec.stored, rng.integers(codec.K, size=n)))


def interpolation(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    """Random points between a row and one of its five nearest neighbors, as in SMOTE."""
    codec = synth.codec
    features = codec.encode(codec.stored)
    near = NearestNeighbors(n_neighbors=min(6, codec.K)).fit(features).kneighbors(features)[1][:, 1:]
    one = rng.integers(codec.K, size=n)
    other = near[one, rng.integers(near.shape[1], size=n)]
    return Generated(decoded(codec, features[one] + rng.random((n, 1)) * (features[other] - features[one]), rng))


def gaussian(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    codec = synth.codec
    fitted = LedoitWolf().fit(jittered(codec, codec.stored))
    drawn = rng.multivariate_normal(fitted.location_, fitted.covariance_, n, method="eigh")
    return Generated(decoded(codec, drawn, rng), multivariate_normal(fitted.location_, fitted.covariance_).logpdf)


def mixture(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    codec = synth.codec
    features = jittered(codec, codec.stored)
    fits = [
        GaussianMixture(c, covariance_type=shape, reg_covar=1e-2, random_state=0).fit(features)
        for c in range(1, min(5, codec.K // 4) + 1)
        for shape in ("diag", "full")
    ]
    best = min(fits, key=lambda fit: fit.bic(features))
    best.random_state = int(rng.integers(2**31))
    return Generated(decoded(codec, best.sample(n)[0], rng), best.score_samples)


def p_beta(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    made = synth.with_generator("hopfield").generator.sample(n, rng)
    return Generated(synth.codec.decode(made.values, made.source))


def ours(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
    made = synth.generator.sample(n, rng)
    return Generated(synth.codec.decode(made.values, made.source), synth.generator.log_density)


def kernels(shape: str, natural: bool = False) -> Method:
    """Covariance kernels whose width is chosen by likelihood, or by the matched-distance rule."""

    def draw(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
        codec = synth.codec
        rows = jittered(codec, codec.stored)
        width = choose_width(jittered(codec, codec.stored, JITTER_OF_SEARCH), shape=shape)
        if natural:
            target = np.median(nearest_distances(rows))
            grid = [width._replace(noise=noise) for noise in np.linspace(0.05, 1, 20)]
            draws = [CovarianceKernels.fit(rows, width=one).sample(N, np.random.default_rng(0))[0] for one in grid]
            width = grid[np.argmin([abs(np.median(nearest_distances(drawn, rows)) - target) for drawn in draws])]
        fitted = CovarianceKernels.fit(rows, width=width)
        return Generated(decoded(codec, fitted.sample(n, rng)[0], rng), fitted.log_density)

    return draw


def jittered(codec: TableCodec, frame: Any, amount: float = JITTER) -> np.ndarray:
    """Features (n, p) of rows, with the jitter of the covariance generator."""
    return codec.jitter(codec.encode(frame), np.random.default_rng(0), amount)


def decoded(codec: TableCodec, features: Any, rng: np.random.Generator) -> Any:
    """Decode features (n, p) to rows; cells that are not modeled come from stored rows."""
    return codec.decode(features, rng.integers(codec.K, size=len(features)))


def sdv(name: str) -> Method:
    def draw(synth: sa.Synthesizer, n: int, rng: np.random.Generator) -> Generated:
        import torch
        from sdv import single_table
        from sdv.metadata import Metadata

        torch.manual_seed(int(rng.integers(2**31)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002  (SDV takes no generator)
        columns = synth.codec.columns
        types = {c.name: {"sdtype": "categorical" if c.type in CLASSES else "numerical"} for c in columns}
        metadata = Metadata.load_from_dict({"tables": {"table": {"columns": types}}, "relationships": []})
        synthesizer = getattr(single_table, f"{name}Synthesizer")(metadata)
        synthesizer.fit({"table": synth.codec.stored})
        drawn = synthesizer.sample(num_rows=n)
        return Generated(drawn["table"] if isinstance(drawn, dict) else drawn)

    return draw


METHODS: dict[str, Method] = {
    "stored, replayed": replay,
    "interpolation (SMOTE)": interpolation,
    "Gaussian, Ledoit-Wolf": gaussian,
    "Gaussian mixture, BIC": mixture,
    "p_beta, natural": p_beta,
    "covariance kernels (ours)": ours,
}
VARIANTS: dict[str, Method] = {
    "ours": ours,
    "pooled, likelihood": kernels("pooled"),
    "local, likelihood": kernels("local"),
    "pooled, natural": kernels("pooled", natural=True),
    "local, natural": kernels("local", natural=True),
}


def scores(task: Task, train: Any, test: Any) -> tuple[float, float]:
    """Accuracy or R² on the test rows of a random forest and a linear model, trained on the train rows."""
    if train["target"].nunique() < 2:
        return (float((test["target"] == train["target"].iloc[0]).mean()),) * 2 if task.classes else (0.0, 0.0)
    names = pd.get_dummies(task.frame.drop(columns="target")).columns
    one, other = (
        pd.get_dummies(frame.drop(columns="target")).reindex(columns=names, fill_value=False).astype(float)
        for frame in (train, test)
    )
    forest = (RandomForestClassifier if task.classes else RandomForestRegressor)(100, random_state=0)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000) if task.classes else Ridge())
    return tuple(float(model.fit(one, train["target"]).score(other, test["target"])) for model in (forest, linear))  # type: ignore[return-value]


def measure(task: Task, K: int, seed: int, methods: dict[str, Method]) -> dict[str, list[float]]:
    """The columns of HEAD for each method."""
    stored, held_out = split(task, K, seed)
    synth = sa.fit(stored, "table")
    codec = synth.codec
    modeled = [column for column in codec.columns if column.transform is not None]
    reference = TableCodec.fit(task.frame)  # the same features for every split
    true = jittered(codec, held_out)
    trained_on_stored = scores(task, stored, held_out)
    figures = {}
    for number, (name, method) in enumerate(methods.items()):
        new, density = method(synth, N, np.random.default_rng([seed, number]))
        metrics = held_out_metrics(*(reference.encode(frame) for frame in (new, stored, held_out)))
        trained = scores(task, new, held_out)
        figures[name] = [
            *metrics,
            float(np.mean(distances(modeled, held_out, new))),
            correlation_error(reference.encode(held_out), reference.encode(new)),
            *trained,
            trained[0] - trained_on_stored[0],
            trained[1] - trained_on_stored[1],
            copies(codec.columns, stored, new),
            float("nan") if density is None else float(np.mean(density(true))),
        ]
    return figures


HEAD = (
    *(
        "table",
        "K",
        "method",
        "train proximity",
        "novelty ratio",
        "copies",
        "1-NN real",
        "1-NN new",
        "KS/TV",
        "correlation",
    ),
    *("forest", "linear", "forest − stored", "linear − stored", "exact copies", "nats per row"),
)


def table(seeds: Sequence[int], sizes: Sequence[int], methods: dict[str, Method]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for task in tasks():
        for K in sizes:
            size = min(K, len(task.frame) * 4 // 5)
            runs = [measure(task, size, seed, methods) for seed in seeds]
            for name in methods:
                values = np.array([run[name] for run in runs])
                cells = [
                    "–" if np.isnan(m) else f"{m:.3f} ± {s:.3f}"
                    for m, s in zip(values.mean(0), values.std(0), strict=True)
                ]
                lines.append("| " + " | ".join([task.name, str(size), name, *cells]) + " |")
    return lines


def speed() -> str:
    """A sentence with the times of fitting, sampling and decoding."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 30)) + 3 * rng.integers(2, size=(1000, 1))
    synth = sa.fit(pd.DataFrame(rows).rename(columns=str), "table")
    begin = time.perf_counter()
    generator = synth.generator
    fitted = time.perf_counter()
    generator.sample(10_000, rng)
    sampled = time.perf_counter()
    synth.sample(10_000, rng=0)
    drawn = time.perf_counter()
    return (
        f"K = 1,000, 30 columns: fitting takes {fitted - begin:.1f} s, sampling {(sampled - fitted) * 100:.1f} µs per "
        f"row, and sampling and decoding {(drawn - sampled) * 100:.1f} µs per row."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, K = 50 only")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sdv", action="store_true", help="include TVAE and Gaussian copula of SDV, if installed")
    parser.add_argument("--variants", action="store_true", help="compare options of our method instead of methods")
    options = parser.parse_args()
    methods = dict(VARIANTS if options.variants else METHODS)
    if options.sdv:
        methods |= {f"SDV {name}": sdv(name) for name in ("GaussianCopula", "TVAE")} if find_spec("sdv") else {}
        if not find_spec("sdv"):
            print("sdv is not installed: its rows are omitted.", file=sys.stderr)
    warnings.simplefilter("ignore")
    # Options are compared on different splits from those of the reported results.
    first = 1000 if options.variants else 0
    seeds = range(first, first + (2 if options.quick else options.seeds))
    print("\n".join(table(seeds, (50,) if options.quick else (20, 50, 200), methods)))
    print(f"\n{speed()}")


if __name__ == "__main__":
    main()
