"""Synthesizer: a codec and a generator, which together make new items like the stored ones.

Which stored items a selection names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._backend.arrays import Array
from .._backend.checks import check_count, check_path, check_positive, require_truth
from .._backend.parallel import check_jobs
from .._backend.random import SeedLike, seed_of
from ..core.conditioning import selection_mask
from ..core.memory import FilePath
from ..core.metrics import cosine_novelty
from ..kinds.codec import Batch, Codec, Conditioned, Items
from ..kinds.generator import Description, Generator, HasLogDensity, HasRows
from ..kinds.kind import AUTO, AnyKind, GeneratorChoice, choose_generator
from ..kinds.options import InputError, given_options, listed
from ..kinds.registry import kind_for, read_codec
from ..kinds.summary import RunSummary, checksum
from . import drawing, saving
from .trial import Trial
from .writing import write_samples

if TYPE_CHECKING:
    from ..evaluation.split_half import SplitHalfResult


class _Weighted(Protocol):
    """What a selection asks of a Synthesizer, which stands above this package."""

    @property
    def kind(self) -> AnyKind: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def weights(self) -> Array: ...


def selected(synth: _Weighted, selection: Any, verb: str) -> Array:
    """Stored items as booleans (K,), of which at least one counts; `verb` is for the message if none does."""
    names, labels = np.asarray(selection), synth.codec.labels
    if names.dtype.kind != "U":
        found = selection_mask(names, synth.codec.K, "selection", "stored items")
    elif labels is None:
        raise InputError("selection names a class, and the stored items have none. Pass booleans or indices.")
    else:
        known, found = sorted(set(labels)), np.isin(np.array(labels), names)
        missing = np.setdiff1d(names, known).tolist()
        if missing:
            raise InputError(f"selection: there is no class {missing[0]!r}; there are {listed(known, 6)}.")
    if not (synth.weights[found] > 0).any():
        rule = f"selection {verb} none of the {synth.codec.K} stored {synth.kind.items} that count"
        raise InputError(f"{rule}. Select some of them.")
    return np.asarray(found)


BLOCK, BLOCK_NUMBERS = 4096, 2**23  # items drawn at a time, and the most numbers in them; results depend on both
MIN_STORED = 8  # below which a note says that they are hardly enough


@dataclass(frozen=True, eq=False, repr=False)
class Synthesizer:
    """New items like the stored ones. Immutable: `condition`, `subset` and `weight` return another.

    `write`, `report` and `save` replace a file that they wrote earlier, and any other only with `replace=True`.

    weights:    (K,) how often each stored item counts
    conditions: values that new items must have, by name
    source, source_sha256: where the stored items come from, and the checksum of that file or folder, for summaries
    asked:      the generator and options that the user asks for; `choice` is what is used
    trial:      what chooses among generators, when one is first fitted; None where the user chose
    resolved:   options that a rule chose in an earlier session, which need not be searched again
    n_jobs:     workers of searches, as in `fit`; it is not saved

    >>> import stochattn as sa
    >>> synth = sa.fit(["MKVLA", "MRILA", "MKILS", "MRVLS"])
    >>> synth
    Synthesizer(4 sequences, generator='latent')
    >>> len(synth.condition({1: "K"}).sample(3, rng=0))
    3
    """

    kind: AnyKind
    codec: Codec
    asked: GeneratorChoice
    weights: Array
    conditions: Mapping[Any, Any] = field(default_factory=dict)
    source: str = ""
    source_sha256: str | None = None
    resolved: Mapping[str, object] = field(default_factory=dict)
    n_jobs: int | None = None
    trial: Trial | None = None

    @classmethod
    def of(cls, kind: AnyKind, codec: Codec, generator: str = AUTO, **options: Any) -> Synthesizer:
        """A Synthesizer of the items that a codec stores, all of which count alike."""
        return cls(kind, codec, choose_generator(kind, generator, options), np.ones(codec.K))

    @property
    def choice(self) -> GeneratorChoice:
        """The generator and its options: those that the user asks for, or that the trial chose."""
        if self.trial is None:
            return self.asked
        with drawing.searching(self.n_jobs):
            return self.trial.choice

    @cached_property
    def _unconditioned(self) -> Generator:
        if drawing.ORIGIN in vars(self):  # conditions do not change the fit
            return vars(self)[drawing.ORIGIN]._unconditioned  # type: ignore[no-any-return]
        options = replace(self.choice.options, **self.resolved)
        with drawing.searching(self.n_jobs):  # the same bits on any machine
            return self.kind.fit_generator(self.choice.name, self.codec, self.weights, options)

    @cached_property
    def _given(self) -> Conditioned:
        return self.codec.condition(self.conditions) if self.conditions else Conditioned(self.codec, None)

    @cached_property
    def generator(self) -> Generator:
        """The generator, fitted when it is first needed, with its settings if n_jobs says how to search for them."""
        fitted = self._unconditioned
        found = fitted.condition(self._given.observation) if self.conditions else fitted
        return drawing.with_settings(found, self.n_jobs)

    @property
    def decoder(self) -> Codec:
        """The codec whose items meet the conditions."""
        return self._given.codec

    @cached_property
    def kept(self) -> Array:
        """Indices of the stored items that count."""
        return np.flatnonzero(self.weights > 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was dropped, mapped or assumed while reading, and what is known about draws, a line each."""
        few = f"only {len(self.kept)} stored {self.kind.items} count: new ones are guesses. Use twenty or more."
        own = (few,) if len(self.kept) < MIN_STORED else ()
        first, *others = (*self.describe().notes, "")
        if self.trial is None or first != self.trial.record.warning:
            first, others = "", [first, *others]
        every = (first, *self.codec.notes, *own, *self._given.notes, *others)
        return tuple(filter(None, every))

    def describe(self) -> Description:
        """How the generator draws."""
        with drawing.searching(self.n_jobs):  # settings may be searched for here
            about = self.generator.describe()
        return about if self.trial is None else replace(about, notes=(*self.trial.record.notes, *about.notes))

    def sample(self, n: int, rng: SeedLike = None, *, n_jobs: int | None = None) -> Any:
        """n new items, as the kind of data presents them: texts, pictures, a data frame.

        rng:    a seed, or a numpy or torch Generator. The first m of n are the m items that a shorter call gives.
        n_jobs: workers, with the same result: -1 for one per core, None for this process or `joblib.parallel_config`
        """
        return self.codec.to_user(self.sample_items(check_count("n", n), seed_of(rng), check_jobs(n_jobs)))

    def sample_items(self, n: int, seed: int, n_jobs: int | None = None) -> Items:
        """n new items, as the codec holds them."""
        parts = drawing.draw(drawing.drawn_items, self, seed, n, n_jobs)
        return self.codec.join(list(drawing.within_memory(parts, n, self.kind.items)))

    def batches(self, n: int, seed: int, n_jobs: int | None = None, blocks: range | None = None) -> Iterator[Batch]:
        """n new items in blocks, all or those with these numbers, with what is measured on each of them."""
        return drawing.draw(drawing.drawn_batch, self, seed, n, n_jobs, blocks)

    @property
    def block_size(self) -> int:
        """How many items are drawn at a time."""
        return drawing.block_size(self, BLOCK, BLOCK_NUMBERS)

    def rows(self, items: Items) -> Array:
        """Items as the rows among which novelty is measured: those of the generator's bank, or centred features."""
        features = self.codec.features(items)
        return self.generator.embed(features) if isinstance(self.generator, HasRows) else features - self._mean

    @cached_property
    def stored_rows(self) -> Array:
        """The stored items that count, as such rows: (K_kept, d)."""
        if isinstance(self.generator, HasRows):
            return self.generator.stored_rows
        return self.rows(self.codec.take(self.codec.stored, self.kept))

    @cached_property
    def _mean(self) -> Array:
        return self.codec.features(self.codec.stored).mean(0)

    def novelty(self, items: Items) -> Array:
        """1 − the largest cosine with a stored row; n items -> (n,)."""
        items = self.codec.checked(items)
        return cosine_novelty(self.rows(items), self.stored_rows)

    def predicted_novelty(self) -> float:
        """The mean novelty of exact draws; NaN for generators that do not sample rows of a bank."""
        return self.generator.predicted_novelty() if isinstance(self.generator, HasRows) else float("nan")

    def predicted_shares(self) -> dict[str, float]:
        """The share of each class among draws, where classes are known and the law gives it; else empty."""
        return drawing.predicted_shares(self)

    def log_density(self, items: Any) -> Array:
        """log density of items, in the units of the generator's arrays: for comparing items with each other; (n,)."""
        if not isinstance(self.generator, HasLogDensity):
            raise TypeError(f"the generator {self.choice.name!r} has no density; choose another generator.")
        items, never = self.kind.scored(self.codec, items)
        arrays = self.codec.features(items) if isinstance(self.generator, HasRows) else self.codec.encode(items)
        found = self.generator.log_density(arrays)
        return found if never is None else np.where(never, -np.inf, found)

    def condition(self, values: Mapping[Any, Any] | str | None = None, **named: Any) -> Synthesizer:
        """New items given these values, beside those of before: `condition(age=40)`, `condition("40 <= age < 60")`."""
        conditions = dict(self.conditions)
        given = self.kind.parse_condition(self.codec, [values]) if isinstance(values, str) else values or {}
        if not isinstance(given, Mapping):
            rule = (
                "condition takes names and values, such as condition(age=40) or {'age': 40}, or a text such as 'age>40'"
            )
            raise InputError(f"{rule}; got {values!r}. Name what the value is for.")
        for name, value in [*given.items(), *named.items()]:
            known = conditions.setdefault(name, value)
            if known is not value and not np.array_equal(known, value):
                conditions[name] = self.codec.both(name, known, value)
        if conditions:
            found = self.codec.condition(conditions)  # impossible values are an error here, not at the first draw
            self.kind.check_condition(found.codec, self.choice.options, found.observation)
        return drawing.conditioned(self, conditions)

    def subset(self, selection: Any) -> Synthesizer:
        """Draw around these stored items only: (K,) booleans, indices, or the name of a class or several."""
        weights = np.where(selected(self, selection, "leaves"), self.weights, 0.0)
        return drawing.sharing_fit(self, replace(self, weights=weights, resolved={}))

    def weight(self, ratio: float, selection: Any) -> Synthesizer:
        """Let these stored items count `ratio` times as often; `selection` as in `subset`."""
        ratio = check_positive("ratio", ratio, "It multiplies how often the selected items count.")
        ratios = np.where(selected(self, selection, "selects"), ratio, 1.0)
        return drawing.sharing_fit(self, replace(self, weights=self.weights * ratios, resolved={}))

    def with_generator(self, name: str = AUTO, **options: Any) -> Synthesizer:
        """The same stored items under another generator, or other options of it."""
        asked = choose_generator(self.kind, name, options)
        is_declined = self.trial is None and self.asked == choose_generator(self.kind, AUTO, {})  # by trial=False
        trial = None if is_declined else Trial.of(self.kind, self.codec, name, asked)
        return drawing.sharing_fit(self, replace(self, asked=asked, trial=trial, resolved={}))

    def refit(self, indices: Array) -> Synthesizer:
        """The same choices on some of the stored items, which then count alike, without conditions or a new trial."""
        codec = self.codec.refit(self.codec.take(self.codec.stored, indices))
        choice = replace(self.choice, options=self.kind.evaluated_options(self.choice.options))
        return Synthesizer(self.kind, codec, choice, np.ones(codec.K))

    def evaluate(self, n: int = 1000, rng: SeedLike = 0, *, n_jobs: int | None = None) -> SplitHalfResult:
        """Split-half validation and privacy: n draws from halves of the stored items against the other halves.

        n_jobs: workers that share the splits, with the same result, as in `sample`; also of `report` and `write`
        """
        from ..evaluation import split_half_validation

        return split_half_validation(self, check_count("n", n), seed_of(rng), n_jobs=check_jobs(n_jobs))

    def explore(self) -> object:
        """What a notebook shows as a live page: a slider from recall to generation, conditions, new items, plots."""
        from ..explorer import in_notebook

        return in_notebook(self)

    def report(
        self,
        path: FilePath,
        n: int = 500,
        rng: SeedLike = 0,
        *,
        quick: bool = False,
        replace: bool = False,
        n_jobs: int | None = None,
    ) -> Path:
        """Write an HTML page on n new items beside the stored ones, `quick` in seconds; returns its path."""
        from ..report import write_report

        jobs = check_jobs(n_jobs)
        return Path(
            write_report(
                self,
                check_path("path", path),
                check_count("n", n),
                seed_of(rng),
                quick=quick,
                replace=replace,
                n_jobs=jobs,
            )
        )

    def write(
        self,
        path: FilePath,
        n: int,
        rng: SeedLike = None,
        format: str | None = None,
        *,
        replace: bool = False,
        n_jobs: int | None = None,
        scheduler: str | None = None,
    ) -> RunSummary:
        """Write n new items to a file, or as a folder of parts by the workers of a Dask scheduler; the summary."""
        check_path("path", path)
        given, jobs = (check_count("n", n), seed_of(rng), os.fspath(path), format), check_jobs(n_jobs)
        return write_samples(self, *given, replace=replace, n_jobs=jobs, scheduler=scheduler)

    def save(self, path: FilePath, *, replace: bool = False) -> None:
        """Write everything to one file, as json and arrays; `load` makes the same draws for the same seed."""
        saving.save(self, check_path("path", path), replace)

    def __repr__(self) -> str:
        tried = self.trial is not None and (self.trial.known is not None or "record" in vars(self.trial))
        choice = self.choice if tried else self.asked  # a line of text is no reason to begin a trial
        given = "".join(f", {name}={value!r}" for name, value in given_options(choice.options).items())
        count_ = f"{len(self.kept)} of {self.codec.K}" if len(self.kept) < self.codec.K else f"{self.codec.K}"
        conditions = f", conditions={dict(self.conditions)!r}" if self.conditions else ""
        of = f" of {n} {self.kind.part}{'s' * (n > 1)}" if (n := len(self.kind.column_types(self.codec))) else ""
        return f"Synthesizer({count_} {self.kind.items}{of}, generator={choice.name!r}{given}{conditions})"


def fit(
    source: Any,
    kind: str | None = None,
    *,
    generator: str = AUTO,
    trial: bool = True,
    n_jobs: int | None = None,
    **options: Any,
) -> Synthesizer:
    """A Synthesizer of stored items: a file, a folder, an array, a data frame or texts.

    kind:      the kind of data, recognised by default
    generator: "auto" for the one made for this kind of data, or a better one for these items if a trial finds it;
               "hopfield" for the paper's p_beta, or another by name
    trial:     whether "auto" without options of a generator is tried on held-out items when it is first fitted
    options:   of reading and of the generator; one that only another generator has, such as beta, chooses that one
    n_jobs:    workers of joblib for searches, with the same result for any number: `covariance` tries several widths at
               a time; `patches` and `deformations` use so many threads, by default all cores. The rules for beta and
               the calibration of `latent` are steps that depend on each other

    >>> import stochattn as sa
    >>> import pandas as pd
    >>> patients = pd.DataFrame({"age": range(20, 60), "dose": [4.0, 5.5, 6.0, 4.5] * 10})
    >>> sa.fit(patients).condition(age=30).sample(3, rng=0).age.tolist()
    [30, 30, 30]
    """
    jobs = check_jobs(n_jobs)
    require_truth("trial", trial)
    found = kind_for(source, kind)
    known = [one.name for one in fields(found.codec_options)]  # some have no help text, and are for Python only
    reading = found.codec_options(**{name: options.pop(name) for name in known if name in options})
    choice = choose_generator(found, generator, options)
    is_path = isinstance(source, str | os.PathLike)
    codec = read_codec(found, Path(source), reading, kind is None) if is_path else found.codec_of(source, reading)
    origin = {"source": os.fspath(source), "source_sha256": checksum(source)} if is_path else {}
    tried = Trial.of(found, codec, generator, choice) if trial else None
    return Synthesizer(found, codec, choice, np.ones(codec.K), **origin, n_jobs=jobs, trial=tried)


def load(path: FilePath) -> Synthesizer:
    """The Synthesizer that `save` wrote; the same seed gives the same draws.

    >>> import os, tempfile, stochattn as sa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sa.fit(["MKVLA", "MRILA", "MKILS"]).save(os.path.join(folder, "a.synth"))
    ...     again = sa.load(os.path.join(folder, "a.synth"))
    >>> again
    Synthesizer(3 sequences, generator='latent')
    """
    return Synthesizer(**saving.load(check_path("path", path)))
