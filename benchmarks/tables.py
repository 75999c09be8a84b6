"""New rows of a table judged on held-out rows, beside replay, interpolation, p_beta, a shrunk Gaussian and a mixture.

python -m benchmarks.tables [--quick] [--seeds 5] [--variants] [--sdv]

Every method but SDV's works in the codec's features (rank-to-normal, one-hot) and decodes with the same codec, so that
the comparison is between laws, not between encodings.
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
from sklearn import datasets
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stochattn
from stochattn.core.mixture import Mixture
from stochattn.core.neighbors import nearest_distances
from stochattn.data.tables import TableCodec
from stochattn.data.tables.measures import copies, correlation_error, distances
from stochattn.data.tables.native import JUDGED_LOOSE, loosened
from stochattn.evaluation.heldout import judge
from stochattn.generators.covariance import CovarianceKernels, choose_width

N = 1000
CLASSES = ("category", "boolean")


class Task(NamedTuple):
    """A table, and whether its target is a class."""

    name: str
    frame: Any
    classes: bool


class Made(NamedTuple):
    """New rows, and the log density of features (n, p) -> (n,) where there is one."""

    frame: Any
    density: Callable[[np.ndarray], np.ndarray] | None = None


Method = Callable[[TableCodec, int, np.random.Generator], Made]


def tasks() -> list[Task]:
    found = []
    for name, load in (
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
        ("diabetes", lambda **options: datasets.load_diabetes(scaled=False, **options)),
    ):
        data = load(as_frame=True)
        frame = data.frame.copy()
        if name != "diabetes":
            frame["target"] = frame["target"].map(dict(enumerate(data.target_names))).astype(str)
        found.append(Task(name, frame, name != "diabetes"))
    return [*found, Task("people", people(), True)]


def people(n: int = 600) -> Any:
    """A made table of numbers, counts, truths and categories that hang together."""
    rng = np.random.default_rng(7)
    place = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    age = np.clip(np.round(rng.normal(35 + 5 * place, 11)), 18, 90).astype(int)
    retired = rng.random(n) < 1 / (1 + np.exp((45 - age) / 6))
    job = np.where(retired, "retired", np.where(rng.random(n) < 0.3 + 0.1 * place, "office", "field"))
    mean_income = 9.5 + 0.02 * age - 0.5 * retired + 0.2 * (job == "office")
    visits = rng.poisson(1 + 0.05 * np.maximum(age - 30, 0) + 2 * retired)
    smoker = rng.random(n) < 0.25 - 0.15 * (job == "office")
    pressure = np.round(110 + 0.5 * age + 6 * smoker + rng.normal(0, 8, n), 1)
    risk = 0.05 * (age - 45) + smoker + 0.06 * (pressure - 135) + 0.3 * (visits - 3) + rng.logistic(0, 0.7, n)
    columns = {
        "age": age,
        "city": np.array(["north", "east", "south", "west"])[place],
        "job": job,
        "income": np.exp(rng.normal(mean_income, 0.4)).round(0),
        "visits": visits,
        "smoker": smoker,
        "pressure": pressure,
        "target": np.where(risk > 0, "high", "low"),
    }
    return pd.DataFrame(columns)


def replay(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    return Made(codec.take(codec.stored, rng.integers(codec.K, size=n)))


def interpolation(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    """A random way between a row and one of its five nearest, as SMOTE does."""
    features = codec.features(codec.stored)
    near = NearestNeighbors(n_neighbors=min(6, codec.K)).fit(features).kneighbors(features)[1][:, 1:]
    one = rng.integers(codec.K, size=n)
    other = near[one, rng.integers(near.shape[1], size=n)]
    return Made(decoded(codec, features[one] + rng.random((n, 1)) * (features[other] - features[one]), rng))


def gaussian(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    fitted = LedoitWolf().fit(loosened(codec, codec.features(codec.stored)))
    drawn = rng.multivariate_normal(fitted.location_, fitted.covariance_, n, method="eigh")
    return Made(decoded(codec, drawn, rng), multivariate_normal(fitted.location_, fitted.covariance_).logpdf)


def mixture(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    features = loosened(codec, codec.features(codec.stored))
    fits = [
        GaussianMixture(c, covariance_type=shape, reg_covar=1e-2, random_state=0).fit(features)
        for c in range(1, min(5, codec.K // 4) + 1)
        for shape in ("diag", "full")
    ]
    best = min(fits, key=lambda fit: fit.bic(features))
    best.random_state = int(rng.integers(2**31))
    return Made(decoded(codec, best.sample(n)[0], rng), best.score_samples)


def p_beta(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    model = stochattn.StochasticAttention(codec.bank, beta="natural", equal_weights=codec.equal_weights)
    z, k = Mixture.of(model.bank, model.beta, codec.factors(model.beta)).sample(n, rng)
    return Made(codec.items(z, k, rng))


def ours(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
    native = codec.native(np.ones(codec.K))
    return Made(native.draw(n, rng)[0], lambda features: native.kernels.log_density(native.space.rows(features)))


def kernels(shape: str, natural: bool = False) -> Method:
    """Kernels whose noise is set by likelihood, or by the natural distance."""

    def draw(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
        rows = loosened(codec, codec.features(codec.stored))
        width = choose_width(loosened(codec, codec.features(codec.stored), JUDGED_LOOSE), shape=shape)
        if natural:
            aim = np.median(nearest_distances(rows))
            grid = [width._replace(noise=noise) for noise in np.linspace(0.05, 1, 20)]
            made = [CovarianceKernels.fit(rows, width=one).sample(N, np.random.default_rng(0))[0] for one in grid]
            width = grid[np.argmin([abs(np.median(nearest_distances(drawn, rows)) - aim) for drawn in made])]
        fitted = CovarianceKernels.fit(rows, width=width)
        return Made(decoded(codec, fitted.sample(n, rng)[0], rng), fitted.log_density)

    return draw


def decoded(codec: TableCodec, features: Any, rng: np.random.Generator) -> Any:
    """Features (n, p) as rows; cells that are not modelled are those of stored rows."""
    return codec.decoded(features, rng.integers(codec.K, size=len(features)))


def sdv(name: str) -> Method:
    def draw(codec: TableCodec, n: int, rng: np.random.Generator) -> Made:
        import torch
        from sdv import single_table
        from sdv.metadata import Metadata

        torch.manual_seed(int(rng.integers(2**31)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002  (SDV takes no generator)
        kinds = {c.name: {"sdtype": "categorical" if c.kind in CLASSES else "numerical"} for c in codec.columns}
        metadata = Metadata.load_from_dict({"tables": {"table": {"columns": kinds}}, "relationships": []})
        maker = getattr(single_table, f"{name}Synthesizer")(metadata)
        maker.fit({"table": codec.stored})
        drawn = maker.sample(num_rows=n)
        return Made(drawn["table"] if isinstance(drawn, dict) else drawn)

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


def split(task: Task, K: int, seed: int) -> tuple[Any, Any]:
    """K stored rows and the rest; at least two of each class are stored."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        order = rng.permutation(len(task.frame))
        stored = task.frame.iloc[order[:K]].reset_index(drop=True)
        every = stored["target"].value_counts().reindex(task.frame["target"].unique(), fill_value=0)
        if not task.classes or every.min() > 1:
            return stored, task.frame.iloc[order[K:]].reset_index(drop=True)
    raise RuntimeError("no split with two rows of every class")


def scores(task: Task, train: Any, test: Any) -> tuple[float, float]:
    """Accuracy or R² on test rows of a forest and of a linear model trained on these rows."""
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
    """For each method the figures of HEAD."""
    stored, held_out = split(task, K, seed)
    codec = TableCodec.fit(stored)
    modelled = [column for column in codec.columns if column.how is not None]
    reference = TableCodec.fit(task.frame)  # one set of features for every split
    true = loosened(codec, codec.features(held_out))
    trained_on_stored = scores(task, stored, held_out)
    figures = {}
    for number, (name, method) in enumerate(methods.items()):
        new, density = method(codec, N, np.random.default_rng([seed, number]))
        judged = judge(*(reference.features(frame) for frame in (new, stored, held_out)))
        trained = scores(task, new, held_out)
        figures[name] = [
            *judged,
            float(np.mean(distances(modelled, held_out, new))),
            correlation_error(reference.features(held_out), reference.features(new)),
            *trained,
            trained[0] - trained_on_stored[0],
            trained[1] - trained_on_stored[1],
            copies(codec.columns, stored, new),
            float("nan") if density is None else float(np.mean(density(true))),
        ]
    return figures


HEAD = (
    *("table", "K", "method", "closer", "novelty ratio", "copies", "1-NN real", "1-NN new", "KS/TV", "correlation"),
    *("forest", "linear", "forest − stored", "linear − stored", "equal", "nats a row"),
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
    """How long fitting and drawing take."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 30)) + 3 * rng.integers(2, size=(1000, 1))
    codec = TableCodec.fit(pd.DataFrame(rows).rename(columns=str))
    begin = time.perf_counter()
    native = codec.native(np.ones(codec.K))
    fitted = time.perf_counter()
    native.kernels.sample(10_000, rng)
    sampled = time.perf_counter()
    native.draw(10_000, rng)
    drawn = time.perf_counter()
    return (
        f"K = 1,000, 30 columns: fitted in {fitted - begin:.1f} s, {(sampled - fitted) * 100:.1f} µs a row drawn and "
        f"{(drawn - sampled) * 100:.1f} µs a row drawn and decoded."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, K = 50 only")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sdv", action="store_true", help="also SDV's TVAE and Gaussian copula, if installed")
    parser.add_argument("--variants", action="store_true", help="our options against each other instead of methods")
    options = parser.parse_args()
    methods = dict(VARIANTS if options.variants else METHODS)
    if options.sdv:
        methods |= {f"SDV {name}": sdv(name) for name in ("GaussianCopula", "TVAE")} if find_spec("sdv") else {}
        if not find_spec("sdv"):
            print("sdv is not installed: its rows are left out.", file=sys.stderr)
    warnings.simplefilter("ignore")
    # Options are chosen on other splits than those on which methods are reported.
    first = 1000 if options.variants else 0
    seeds = range(first, first + (2 if options.quick else options.seeds))
    print("\n".join(table(seeds, (50,) if options.quick else (20, 50, 200), methods)))
    print(f"\n{speed()}")


if __name__ == "__main__":
    main()
