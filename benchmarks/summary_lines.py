"""The lines of the summary of docs/quality.md."""

from __future__ import annotations

from .summary import Goal, Line, above_rivals, at_least, at_most, near_stored, within

DIGITS = "All ten digits, each on its own"
PICTURES = ("stored, affine and elastic", "patches")
TABLES = ("CART (synthpop)", "ARF", "Gaussian copula", "SMOTE")
PROTEINS = ("arDCA-like", "Potts, pseudo-likelihood", "hmmemit", "hmmemit, no entropy weighting")
SIGNALS = ("DTW barycenters", "block bootstrap", "Gaussian process", "VAE", "jitter, scale, warp")
SIGNALS += tuple(f"{name}, normalized" for name in ("DTW barycenters", "block bootstrap", "jitter, scale, warp"))
RETURNS = ("stationary bootstrap", "multivariate t", "GARCH-filtered simulation")


def _digits(measure: str, column: str, goal: Goal) -> Line:
    section = "Images: deformations"
    return Line("images", measure, section, DIGITS, column, goal, "deformations", PICTURES, "stored, replayed")


def _portraits(measure: str, column: str, goal: Goal) -> Line:
    return Line("images", measure, "Images: deformations", "Ten people", column, goal, "deformations", ("patches",))


def _photographs(measure: str, ours: str) -> Line:
    goal = at_most(0.05, ideal=0.01)
    return Line("images", measure, "Images: deformations", "Patches of two photographs", "copies", goal, ours, ())


def _gain(measure: str, nth: int, goal: Goal, ours: str = "deformations") -> Line:
    caption = "Gain in accuracy"
    return Line("images", measure, "Images: deformations", caption, "gain", goal, ours, PICTURES, "stored only", nth)


def _table(measure: str, column: str, goal: Goal) -> Line:
    caption = "`python -m benchmarks.table_contest`"
    return Line(
        "tables", measure, "Tables: covariance kernels", caption, column, goal, "stochattn", TABLES, "stored rows"
    )


def _protein(measure: str, column: str, goal: Goal) -> Line:
    section, ours, stored = (
        "Proteins: calibrated latent",
        "calibrated latent (ours)",
        "true sequences (stored, each once)",
    )
    return Line("proteins", measure, section, "all families", column, goal, ours, PROTEINS, stored)


def _returns(measure: str, column: str, goal: Goal) -> Line:
    section, caption = "Returns: windows of days", "### 10, 20, 50 tickers"
    return Line("returns", measure, section, caption, column, goal, "windows, linked (default)", RETURNS)


def _signals(measure: str, column: str, goal: Goal) -> Line:
    section, ours, stored = "Signals: deformations", "deformations (default)", "stored, replayed"
    return Line("signals", measure, section, "### All", column, goal, ours, SIGNALS, stored)


LINES = (
    _digits("digits: train proximity", "train proximity", at_most(0.70, ideal=0.5)),
    _digits("digits: copies", "copies", at_most(0.03, ideal=0.01)),
    _digits("digits: C2*", "C2*", at_most(0.64, ideal=0.5)),
    _digits("digits: Fréchet over stored, perceptron", "perceptron", at_most(2.0, ideal=1.0)),
    _digits(
        "digits: Fréchet over stored, convolutional", "Fréchet over stored, convolutional", at_most(2.0, ideal=1.0)
    ),
    _digits("digits: pieces, points from stored", "pieces, points", within(3.0)),
    _gain("digits: gain of an SVM, points", 0, at_least(4.5)),
    _gain("digits: gain of a CNN, points", 1, at_least(8.5)),
    _gain(
        "digits: gain of a CNN, affine and elastic added, points",
        1,
        at_least(8.5),
        "deformations, then affine and elastic",
    ),
    Line(
        "images",
        "ten digits: a classifier agrees with the class, %",
        "Images: deformations",
        "Ten digits, K stored each",
        "classifier agrees, %",
        near_stored(3.0),
        "deformations, classes given",
        (),
        "stored",
    ),
    _portraits("portraits: train proximity", "train proximity", at_most(0.80, ideal=0.5)),
    _portraits("portraits: copies", "copies", at_most(0.05, ideal=0.01)),
    _photographs("photo patches, 16 x 16: copies", "deformations, 16 x 16"),
    _photographs("photo patches, 32 x 32: copies", "deformations, 32 x 32"),
    _table("two-sample AUC", "two-sample AUC", at_most(0.60, ideal=0.5)),
    _table("C2*", "C2*", at_most(0.57, ideal=0.5)),
    _table("forest gap", "forest gap", at_least(-0.005)),
    _table("copies", "copies", at_most(0.015, ideal=0.01)),
    _table("train proximity", "train proximity", at_most(0.70, ideal=0.5)),
    _protein("profile-score KS", "HMM-score KS", at_most(0.19)),
    _protein("identity excess", "identity excess", within(0.02)),
    _protein("near-copies", "near-copies", at_most(0.03, ideal=0.01)),
    _protein("1-NN, mean", "1-NN mean", at_most(0.68, ideal=0.5)),
    _protein("couplings, r of C_ij", "C_ij r", above_rivals()),
    _protein("catalytic residues kept", "catalytic", at_least(0.97)),
    _protein("gap-run ratio", "gap-run ratio", within(0.05, ideal=1.0)),
    _protein("held-out nats per site", "nats/site", above_rivals()),
    _returns("clustering kept", "ACF kept", at_least(0.75)),
    _returns("leverage error", "leverage", at_most(0.02)),
    _returns("1 % VaR, relative error", "1 % VaR", at_most(0.04)),
    _returns("expected shortfall, relative error", "ES", at_most(0.04)),
    _returns("correlation error", "correlation", at_most(0.045)),
    _returns("days copied", "days copied", at_most(0.0)),
    _returns("train proximity", "train proximity", at_most(0.70, ideal=0.5)),
    _signals("train proximity", "train proximity", at_most(0.70, ideal=0.5)),
    _signals("copies", "copies", at_most(0.03, ideal=0.01)),
    _signals("C2*", "C2*", at_most(0.64, ideal=0.5)),
    _signals("spectra over stored", "spectra", at_most(2.0, ideal=1.0)),
    _signals("autocorrelation over stored", "autocorrelation", at_most(2.0, ideal=1.0)),
    _signals("gain of nearest neighbors by DTW, points", "1-NN-DTW gain", above_rivals()),
    _signals("gain of a classifier like ROCKET, points", "ROCKET gain", above_rivals()),
)
