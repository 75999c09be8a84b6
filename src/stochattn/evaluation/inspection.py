"""Facts about the stored items: what encoding loses, and which beta each rule chooses.

Tests say whether new items represent all stored items: shares of classes or clusters, of categories, and of missing
values. Fisher's exact test compares a count k of n new items with a count j of K stored items: if both were drawn from
the same distribution, k given k + j is hypergeometric. The distribution of a part is compared by a Kolmogorov-Smirnov
test. The level `CHANCE` is divided by the number of tests, so that real items fail any of them that rarely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.files import atomic_file, require_file
from ..core import temperature
from ..core.memory import MemoryBank
from ..core.neighbors import have_duplicates, nearest_rows, spaced_indices
from ..core.temperature import RULES, BetaRule, EntropyCurve
from ..kinds.comparison import Part, Values
from ..kinds.hopfield import HopfieldGenerator
from ..kinds.kind import GeneratorChoice
from ..synthesizer.synthesizer import Synthesizer

MAX_CLUSTERS, MIN_IN_CLUSTER = 8, 15  # clusters, and stored items per cluster on average, or with the same number
MAX_STORED = 2000  # stored items whose nearest neighbors are searched
CHANCE = 0.001  # of real items failing one check: some twenty checks together fail in at most 2 of 100 reports


class Mode(NamedTuple):
    """A class, cluster or category: how many of the stored and of the new items belong to it, and the totals."""

    name: str
    n_stored: int
    of_stored: int
    n_new: int
    of_new: int

    @property
    def stored(self) -> float:
        """Its share of the stored items."""
        return self.n_stored / self.of_stored

    @property
    def new(self) -> float:
        """Its share of the new items."""
        return self.n_new / self.of_new

    def is_rare(self, n_tests: int = 1) -> bool:
        """Whether the new share is below half of the stored share, by more than chance in `n_tests` tests."""
        return self.new < self.stored / 2 and self._chance_of_fewer() * n_tests <= CHANCE

    def chance(self) -> float:
        """The probability that real items differ from the stored share by as much."""
        flipped = self._replace(n_stored=self.of_stored - self.n_stored, n_new=self.of_new - self.n_new)
        return min(1.0, 2 * min(self._chance_of_fewer(), flipped._chance_of_fewer()))

    def _chance_of_fewer(self) -> float:
        from scipy.stats import hypergeom

        of_all, n_all = self.of_stored + self.of_new, self.n_stored + self.n_new
        return float(hypergeom.cdf(self.n_new, of_all, n_all, self.of_new))


def count_modes(
    stored: Array, new: Array, labels: Sequence[str] | None, new_labels: Sequence[str] | None = None
) -> tuple[Mode, ...]:
    """Count stored rows (K, d) and new rows (n, d) by class, `labels` (K,) and `new_labels` (n,), or by cluster.

    If new items do not say their class, every item gets the class of the nearest stored item other than itself, so
    that stored and new items are counted in the same way. The result is empty if few rows are stored.
    """
    has_classes = labels is not None and len(set(labels)) > 1
    names = np.array(labels) if has_classes else _find_clusters(stored)
    if names is None:
        return ()
    if has_classes and new_labels is not None:
        return tuple(_count(names.tolist(), list(map(str, new_labels))))
    of_stored = names[nearest_rows(stored, chosen=spaced_indices(len(stored), MAX_STORED))]
    return tuple(_count(of_stored.tolist(), names[nearest_rows(new, stored)].tolist(), set(names.tolist())))


def _count(stored: Sequence[str], new: Sequence[str], names: Iterable[str] = ()) -> Iterator[Mode]:
    n_stored, n_new = Counter(stored), Counter(new)
    for name in sorted(set(map(str, names)) or set(n_stored)):
        yield Mode(name, n_stored[name], len(stored), n_new[name], len(new))


def count_categories(parts: Iterable[Part]) -> tuple[Mode, ...]:
    """Count the stored categories of the parts that are checked separately; names have the form “city: Oslo”.

    A number that many stored rows of a table share, such as the stage of a disease, is a category too.
    """
    checked = [(part.name, part.values()) for part in parts if part.checked_separately and part.values is not None]
    return tuple(
        mode._replace(name=f"{name}: {mode.name}")
        for name, values in checked
        if len(values.stored) and len(values.new)
        for mode in _count(*map(values.names, (values.stored, values.new)))
        if values.are_names or (values.numbers_may_be_codes and mode.n_stored >= MIN_IN_CLUSTER)
    )


def compute_chance(values: Values) -> float:
    """The probability that values of real items differ from the stored ones by as much, missing values included."""
    from scipy.stats import ks_2samp

    stored, new = values.stored, values.new
    gaps = Mode("missing", values.gaps[0], values.gaps[0] + len(stored), values.gaps[1], values.gaps[1] + len(new))
    chances = [gaps.chance()] if gaps.of_stored and gaps.of_new and sum(values.gaps) else []
    if len(stored) and len(new):
        if values.are_names:
            shares = list(_count(stored.tolist(), new.tolist(), {*stored.tolist(), *new.tolist()}))
            chances.append(min(mode.chance() for mode in shares) * len(shares))
        else:
            chances.append(float(ks_2samp(stored, new, method="asymp").pvalue))
    return min(1.0, min(chances) * len(chances)) if chances else math.nan


def is_beyond(count: float, n: int, limit: float) -> bool:
    """Whether a count among n items exceeds the allowed share by more than chance."""
    from scipy.stats import binom

    return count > limit * n and bool(binom.sf(count - 1, n, min(limit, 1.0)) <= CHANCE)


def _find_clusters(stored: Array) -> Array | None:
    from sklearn.cluster import KMeans

    n_clusters = min(MAX_CLUSTERS, len(stored) // MIN_IN_CLUSTER, len(np.unique(stored, axis=0)))
    if n_clusters < 2:
        return None
    clusters = KMeans(n_clusters, n_init=4, random_state=0).fit_predict(stored)
    return np.array([f"cluster {cluster + 1}" for cluster in clusters])


HOPFIELD = "hopfield"
N_BETAS = 120
SOFTWARE, MAX_MARK = "stochattn", 1000  # the mark of plots that may be replaced, and the bytes that are searched for it
MAX_PAIRS = 2**27  # of rows that are compared in a round trip
MIN_CHECKED = 1024  # stored items that a round trip checks, however many there are


class RoundTripLoss(NamedTuple):
    """Shares of the stored items, and of their values, that come back exactly from encoding and decoding."""

    items: float
    values: float
    variance: float | None = None  # the share that the rows keep, if items become rows
    n_checked: int | None = None  # how many evenly spaced items were checked, if not all

    def __str__(self) -> str:
        checked = "the stored items" if self.n_checked is None else f"{self.n_checked:,} evenly spaced items"
        if self.items == 1:
            return f"nothing: each of {checked} decodes to itself"
        kept = "" if self.variance is None else f"; rows keep {self.variance:.1%} of the variance"
        return f"{1 - self.values:.2%} of the values ({self.items:.0%} of {checked} decode to themselves{kept})"


class RuleChoice(NamedTuple):
    """The beta that a rule chooses and the novelty of draws at it, or why the rule chooses none."""

    rule: BetaRule
    beta: float = math.nan
    novelty: float = math.nan
    failure: str = ""

    @property
    def name(self) -> str:
        """The rule as the option `beta` accepts it."""
        return self.rule.replace("_", "-")


class BankFacts(NamedTuple):
    """The stored items as the rows of a memory bank, which the generator "hopfield" samples."""

    d: int
    rank: int
    norms: tuple[float, float]  # the smallest and the largest length before scaling
    duplicates: int  # rows that equal another row
    loss: RoundTripLoss
    curve: EntropyCurve
    choices: tuple[RuleChoice, ...]


class Inspection(NamedTuple):
    """What `inspect` shows of K stored items."""

    kind: str
    K: int
    classes: dict[str, int]  # the number of items by class, if items have classes
    columns: tuple[tuple[str, str], ...]  # names and types of the parts of an item, if parts have types
    bank: BankFacts | None  # None for a kind of data without the generator "hopfield"
    notes: tuple[str, ...]
    generator: str

    def as_dict(self) -> dict[str, object]:
        """The facts as plain values, for JSON."""
        facts = {**self._asdict(), "columns": dict(self.columns)}
        bank = facts.pop("bank")
        if bank is None:
            return facts
        rules = {choice.name: {"beta": choice.beta, "novelty": choice.novelty} for choice in bank.choices}
        failures = {choice.name: {"failure": choice.failure} for choice in bank.choices if choice.failure}
        curve = {"beta": bank.curve.beta.tolist(), "entropy": bank.curve.entropy.tolist()}
        facts |= {name: getattr(bank, name) for name in ("d", "rank", "duplicates", "norms")}
        return {**facts, "loss": bank.loss._asdict(), "rules": {**rules, **failures}, "curve": curve}


def inspect(synth: Synthesizer) -> Inspection:
    """Collect facts about the stored items, and about the rules that choose beta for them."""
    kind, codec = synth.kind, synth.codec
    classes = dict(sorted(Counter(codec.labels or ()).items()))
    bank = _inspect_bank(synth) if HOPFIELD in kind.generators else None
    columns = kind.display.column_types(codec)
    return Inspection(kind.name, codec.K, classes, columns, bank, codec.notes, synth.choice.name)


def round_trip_loss(synth: Synthesizer) -> RoundTripLoss:
    """Encode the stored items as the generator uses them, decode them without noise, and compare."""
    synth = synth.unconditioned()  # conditioned values do not come back
    codec, generator, variance, items = synth.codec, synth.generator, None, synth.codec.stored
    indices = np.arange(codec.K)
    if isinstance(generator, HopfieldGenerator):  # items are decoded from their rows, like draws at infinite beta
        embedding = generator.embedding.at(math.inf)
        stored, variance = embedding.coordinates.stored, generator.embedding.coordinates.variance
        indices = spaced_indices(codec.K, max(MAX_PAIRS // codec.K, MIN_CHECKED))
        rows, items = (stored, items) if len(indices) == codec.K else (stored[indices], codec.take(items, indices))
        source = nearest_rows(rows, stored)
        arrays = embedding.arrays(rows * embedding.factors(math.inf)[source], source, np.random.default_rng(0))
    else:
        arrays, source = codec.encode(items), indices
    same = synth.kind.measures.same(codec, codec.decode(arrays, source), items).reshape(len(indices), -1)
    n_checked = None if len(indices) == codec.K else len(indices)
    return RoundTripLoss(float(same.all(1).mean()), float(same.mean()), variance, n_checked)


def require_plot(name: str, path: Path, *, replace: bool = False) -> None:
    """Raise InputError, before any work, if the plot cannot be written or would replace a file that is not a plot."""
    mark = f"Software\0{SOFTWARE}".encode()
    require_file(name, path, lambda old: mark in old.read_bytes()[:MAX_MARK], replace)


def plot_entropy(inspection: Inspection, path: Path) -> None:
    """Write the entropy curve with the rules' betas as a PNG file."""
    from matplotlib.figure import Figure

    bank = inspection.bank
    if bank is None:
        raise ValueError(f"{inspection.kind} data has no entropy curve, because it has no generator {HOPFIELD!r}.")
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogx(bank.curve.beta, bank.curve.entropy, color="#222222", label="attention entropy")
    axes.axhline(math.log(inspection.K), color="#999999", lw=0.8, ls=":")
    for number, choice in enumerate(choice for choice in bank.choices if not choice.failure):
        label = f"{choice.name}: beta {choice.beta:.3g}, novelty {choice.novelty:.2f}"
        axes.axvline(choice.beta, color=f"C{number}", label=label)
    axes.set(xlabel="inverse temperature beta", ylabel="entropy (nats)")
    axes.set_title(f"{inspection.K} stored, d = {bank.d}: from diffuse (left) to recall (right)", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150, metadata={"Software": SOFTWARE})


def _inspect_bank(synth: Synthesizer) -> BankFacts:
    options_type, options = synth.kind.generators[HOPFIELD], synth.choice.options
    options = synth.kind.evaluated_options(options if isinstance(options, options_type) else options_type())
    options = replace(options, beta=1.0, novelty=None)  # a rule may fail to find a beta, see below
    fit = synth.generator_fit.change(requested=GeneratorChoice(HOPFIELD, options), trial=None)
    hopfield = replace(synth, generator_fit=fit, conditions={})
    generator = hopfield.generator
    if not isinstance(generator, HopfieldGenerator):
        raise TypeError(f"the generator {HOPFIELD!r} must be a HopfieldGenerator; got {type(generator).__name__}.")
    bank, norms = MemoryBank(generator.stored_rows), generator.embedding.coordinates.norms
    equal, choices = generator.embedding.equal_weights, []
    novelty = temperature.novelty_curve(bank, equal_weights=equal)
    for rule in RULES:
        try:
            beta = temperature.by_rule(bank, rule, equal_weights=equal)
            choices.append(RuleChoice(rule, beta, novelty(beta)))
        except ValueError as error:
            choices.append(RuleChoice(rule, failure=str(error)))
    betas = [choice.beta for choice in choices if not choice.failure]
    spread = float(np.ptp(to_numpy(bank.patterns @ bank.patterns[:1].T))) or 1.0
    low, high = min([0.1 / spread, *(b / 10 for b in betas)]), max([100 / spread, *(b * 10 for b in betas)])
    curve = temperature.entropy_curve(bank, np.geomspace(low, high, N_BETAS))  # from diffuse to sharp attention
    duplicates = int(have_duplicates(bank.patterns, 1e-9 * bank.M).sum())
    lengths = float(np.min(norms)), float(np.max(norms))
    return BankFacts(bank.d, bank.rank, lengths, duplicates, round_trip_loss(hopfield), curve, tuple(choices))
