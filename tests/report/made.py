"""Synthesizers of every kind from generated data, with names that contain HTML, and evidence made by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd

import stochattn as sa
from stochattn.evaluation.fidelity import PARTS, TAILS, TWO_SAMPLE, Fidelity, Relations, Score
from stochattn.evaluation.inspection import RoundTripLoss
from stochattn.evaluation.split_half import HeldOutMetrics, SplitHalfResult, SplitMetrics
from stochattn.kinds.comparison import Comparison, Measure, Part
from stochattn.kinds.registry import kind_of
from stochattn.report import make_report
from stochattn.report.evidence import Closeness, Evidence

KINDS = ("protein", "image", "table", "returns")
SCRIPT = "<script>window.pwned=1</script>"
IMAGE = '"><img src=x onerror="window.pwned=1">'
NAMES = (SCRIPT, IMAGE, "'><svg onload=pwned=1>", "αβγ δ&amp;", "漢字", "🧬", "שלום עולם", "a$b_{c}^$\x00\u202e")
LETTERS = np.array(list("ACDEFGHIKLMNPQRSTVWY-"))

SOURCE = f"folder/{SCRIPT}{IMAGE}"


def build_report(synth, items, **options):
    """The page of a report."""
    return make_report(synth, items, **options).page


def change_fit(synth, **fields):
    """A synthesizer with other fields of its fit, such as weights (K,)."""
    return replace(synth, generator_fit=replace(synth.generator_fit, **fields))


def names(n):
    return [f"{NAMES[i % len(NAMES)]} {i}" for i in range(n)]


def sequences(rng, n, n_positions=30):
    """A family: two ancestors, each position kept with probability 0.6 and drawn at random otherwise."""
    ancestors = rng.integers(0, 20, (2, n_positions))
    kept = rng.random((n, n_positions)) < 0.6
    return np.where(kept, ancestors[rng.integers(2, size=n)], rng.integers(0, 21, (n, n_positions))).astype(np.uint8)


def proteins(codes, **options):
    """A synthesizer of sequences (K, L), with all of their columns."""
    texts = dict(zip(names(len(codes)), map("".join, LETTERS[codes]), strict=True))
    return sa.fit(texts, "protein", max_column_gaps=1.0, max_sequence_gaps=1.0, **options)


def returns(log_returns, tickers, window, **options):
    """A synthesizer of windows of log-returns (T, N)."""
    days = pd.date_range("2024-01-01", periods=len(log_returns), freq="D")
    frame = pd.DataFrame(log_returns, columns=list(tickers), index=days)
    return sa.fit(frame, "returns", values="returns", window=window, **options)


def images(rng, K, **options):
    """A synthesizer of small pictures of blobs, of two classes."""
    blob = np.exp(-np.square(np.arange(8) - rng.uniform(2, 6, (K, 1))) / 4)
    pictures = (255 * blob[:, :, None] * blob[:, None, :]).astype(np.uint8)
    kind = kind_of("image")
    named = replace(kind.codec_options(), ids=names(K), labels=[NAMES[i % 2] for i in range(K)])
    return change_fit(sa.fit(pictures, "image", **options), codec=kind.codec_of(pictures, named))


def frame(rng, K):
    """A table with columns of every type."""
    number = rng.normal(size=K)
    columns = {
        SCRIPT: number,
        IMAGE: rng.choice(NAMES[:4], K),
        "whole": rng.integers(0, 90, K),
        "same": np.full(K, 7.5),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, K), unit="D"),
        "partly": np.where(np.arange(K) % 5 == 0, np.nan, number + rng.normal(size=K)),
    }
    return pd.DataFrame(columns)


def synth(kind, K=24, seed=0, **options):
    """A synthesizer of K stored items, or of K days."""
    rng = np.random.default_rng(seed)
    if kind == "protein":
        return proteins(sequences(rng, K), **options)
    if kind == "image":
        return images(rng, K, **options)
    if kind == "table":
        return sa.fit(frame(rng, K), "table", **options)
    return returns(0.01 * rng.standard_t(4, (K, 4)), NAMES[:4], window=3 if K > 4 else 1, **options)


def parts(distances):
    """Parts of these distances, named by their numbers."""
    return tuple(Part(f"part {i}", "old", "young", distance) for i, distance in enumerate(distances))


def evidence(of, splits=(), **changed):
    """Evidence of 40 new items that passes all checks, without any measuring; `changed` are fields of their own."""
    rng, rows = np.random.default_rng(0), of.stored_rows
    distances = Closeness(np.linspace(1.0, 2.0, 40), np.linspace(0.1, 0.2, 40))
    key = of.kind.measures.key.name
    alike = Comparison((Measure(key, 1.0, 1.0, "of the whole"),), parts([0.1, 0.1]))
    facts = {
        **{"synth": of, "method_known": True, "n": 40, "n_compared": 40, "classes": None, "copies": 0.0},
        **{"rows": rng.normal(size=(40, rows.shape[1])), "to_stored": distances, "among_stored": distances},
        **{"stored_duplicates": 0.0, "diversity": 1.0, "stored_diversity": 1.0, "predicted_novelty": np.nan},
        **{"comparison": alike, "resampled": alike, "loss": RoundTripLoss(1.0, 1.0)},
        "split_half": SplitHalfResult(tuple(splits), 24, "" if splits else "too few", n_draws=40),
    }
    return Evidence(**{**facts, **changed})


def split(scores=None, relations=((0.5,), (0.5,)), auc=0.5, near_copies=0.01):
    """One split of faithful draws, with these scores in place of good ones."""
    good = {PARTS: Score(0.1, 0.1, 1.0), TWO_SAMPLE: Score(0.5, 0.5, 1.0), TAILS: Score(0.1, 0.1, 1.0)}
    measured = Fidelity({**good, **(scores or {})}, Relations(*relations))
    return SplitMetrics(HeldOutMetrics(0.5, 1.0, near_copies, 0.5, 0.5), auc, (), (), measured)
