"""The kind of data "signals": time series, spectra, heartbeats, windows of sensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..._backend.arrays import Array
from ..._backend.html import Html, join, tag
from ..._backend.state import Plain
from .. import Display, Format, InputError, KeyMeasure, Kind, Measures, Settings, Writer
from ..codec import ZARR, index_of
from ..display import Control, GalleryItems, StretchControl, card_heading, lay_out, stored_name
from ..generator import Generator
from ..plain import Rescaled
from .codec import SignalCodec
from .description import SignalDeformationOptions, SignalDescription, SignalOptions, TimeWindowOptions
from .formats import make_class_words
from .generator.deformations import SignalDeformations
from .generator.window_fit import fit_time_windows
from .reading import NONE, convert_array, cut_to_length, join_signals, make_codec, read_signals
from .writing import SignalWriter, compare_signals, signal_statistics

MAX_POINTS_CONTROLS = 240  # of the small plot


def signal_controls(codec: SignalCodec) -> tuple[Control, ...]:
    """A stretch of time, marked on a stored signal, that new signals have in common with it."""
    chosen = np.unique(np.linspace(0, codec.length - 1, min(codec.length, MAX_POINTS_CONTROLS)).astype(int))

    def shown(k: int) -> list[list[float]]:
        return [channel[chosen].tolist() for channel in codec.stored[k][:MAX_CHANNELS]]

    return (StretchControl("stretch", "Stretch to keep", codec.length, codec.channels, codec.ids, shown),)


WIDTH, HEIGHT = 240, 64
MAX_CHANNELS, MAX_POINTS = 4, 400  # of a plot; longer signals are drawn by extremes


def signal_gallery(codec: SignalCodec, shown: GalleryItems) -> Html:
    """Each new signal over the stored one nearest to it, a plot for each of the first channels."""
    cards = []
    for i, k in enumerate(shown.nearest):
        heading = card_heading(shown, i, stored_name(codec.ids, codec.labels, int(k)))
        new, old = np.asarray(shown.items[i]), codec.stored[k]
        plots = [_lines(old[c], new[c], codec.channels[c]) for c in range(min(len(new), MAX_CHANNELS))]
        cards.append(tag("div", heading, *plots, class_="item"))
    keys = tag("span", class_="key new"), "new  ", tag("span", class_="key old"), "nearest stored. "
    more = len(codec.channels) - MAX_CHANNELS
    about = f"The first {MAX_CHANNELS} channels of {len(codec.channels)}." if more > 0 else ""
    return join([tag("p", *keys, about, class_="note"), lay_out(cards, "items signals")])


def _lines(old: Array, new: Array, channel: str) -> Html:
    low, high = float(min(old.min(), new.min())), float(max(old.max(), new.max()))
    parts = []
    for which, values in (("old", old), ("new", new)):
        times = np.arange(len(values))
        if len(values) > MAX_POINTS:  # the lowest and the highest point of each block
            blocks = np.array_split(times, MAX_POINTS // 2)
            times = np.unique([block[end(values[block])] for block in blocks for end in (np.argmin, np.argmax)])
        x = (WIDTH - 2) * times / (len(old) - 1) + 1
        y = 3 + (HEIGHT - 6) * (high - values[times]) / ((high - low) or 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        parts.append(f'<polyline class="{which}" points="{points}" fill="none" stroke-width="1.4"/>')
    label = f"new and stored values from {low:.3g} to {high:.3g}"
    plot = Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')
    return tag("figure", plot, tag("figcaption", f"channel {channel}: {low:.3g} to {high:.3g}"))


_PLACE = re.compile(r"(?:(.+)@)?\s*(\d+)\s*(?::\s*(\d+)\s*)?")


class SignalKind(SignalDescription, Kind["SignalCodec"]):
    """Signals of one length, with one or several channels."""

    alternatives, last_resort = ("windows", "hopfield", "gaussian"), "rescaled"
    formats = (
        Format("ts", (".ts",)),
        Format("csv", (".csv",)),
        Format("npy", (".npy",), collected=True),
        Format("npz", (".npz",), collected=True),
        Format("wav", ("",)),
        ZARR,
    )
    measures = Measures(
        key=KeyMeasure("roughness", 0.3, "As smooth as the stored", "they are noisier or smoother than the stored"),
        compare=compare_signals,
        named_parts=lambda codec: (codec.channels, np.tile(np.arange(len(codec.channels)), codec.length)),
        statistics=signal_statistics,
    )
    display = Display(
        signal_gallery, style=(files(__package__) / "style.css").read_text("utf-8"), controls=signal_controls
    )

    def read(self, path: Path, options: SignalOptions) -> SignalCodec:
        return make_codec(read_signals(path, options), str(path), options)

    def read_files(self, paths: Sequence[Path], options: SignalOptions) -> SignalCodec:
        signals = join_signals([read_signals(path, SignalOptions(options.label)) for path in paths])
        return make_codec(signals, str(paths[0].parent), options)

    def codec_of(self, data: object, options: SignalOptions) -> SignalCodec:
        if options.label not in (None, NONE):
            rule = f"label must name a column, and an array has none; got {options.label!r}"
            raise InputError(f"{rule}. Pass the classes as labels, or label='none' to use none.")
        return make_codec(convert_array(data), "signals", options)

    def codec_from_state(self, state: dict[str, object]) -> SignalCodec:
        return SignalCodec(**state)  # type: ignore[arg-type]

    def fit_generator(self, name: str, codec: SignalCodec, weights: Array, options: object) -> Generator:
        signals = codec.encode(codec.stored)
        if isinstance(options, SignalDeformationOptions):
            return SignalDeformations.fit(signals, weights, codec.classes, options.scale, options.neighbors)
        if isinstance(options, TimeWindowOptions):
            for option, points in (("slide", options.slide), ("shift", options.shift)):
                if points is not None and points >= codec.length:
                    rule = f"{option} must be less than the {codec.length} points of a signal; got {points}"
                    raise InputError(f"{rule}. Leave it out to choose it.")
            return fit_time_windows(signals, weights, codec.classes, vars(options))
        if name == "rescaled":
            return Rescaled(signals, weights, self.items, SignalDeformations.fit(signals, weights, codec.classes))
        return super().fit_generator(name, codec, weights, options)

    def parse_condition(self, codec: SignalCodec, texts: Sequence[str]) -> Mapping[object, object]:
        """Conditions from strings [CHANNEL@]POINT=VALUE and [CHANNEL@]FIRST:LAST=ID; points count from 1.

        LAST is included. ID is that of a stored signal, a file with one signal, or a number, in this order.
        """
        values: dict[object, object] = {}
        for text in texts:
            place, _, value = (part.strip() for part in text.partition("="))
            match = _PLACE.fullmatch(place)
            if not match or not value:
                rule = "write POINT=VALUE, FIRST:LAST=ID for a stretch as in the stored signal ID, or CHANNEL@ before"
                raise InputError(f"condition {text!r} is not understood: {rule} it.")
            first, last = int(match[2]), int(match[3] or match[2])
            if not 1 <= first <= last <= codec.length:
                raise InputError(f"condition {text!r}: points must lie within 1 to {codec.length}.")
            when: object = (first - 1, last) if match[3] else first - 1
            key = when if match[1] is None else (match[1].strip(), when)
            wanted = _stretch(codec, text, value, first - 1, last) if match[3] else _number(text, value)
            if not np.array_equal(values.setdefault(key, wanted), wanted):  # type: ignore[arg-type]
                raise InputError(f"condition {text!r} contradicts another condition on the same points: remove one.")
        return values

    def writer(self, codec: SignalCodec, destination: BinaryIO | Path, format: Format, settings: Settings) -> Writer:
        return SignalWriter(destination, format.name, codec, settings)

    def as_array(self, codec: SignalCodec, items: Array, first: int) -> Array:
        """Signals (n, channels, points), or (n, points) where the stored ones have no channels."""
        return np.asarray(codec.to_user(items), dtype=np.float64)

    def array_attributes(self, codec: SignalCodec) -> dict[str, Plain]:
        return {"channels": list(codec.channels)}

    def read_new(self, codec: SignalCodec, path: Path) -> Array:
        signals = cut_to_length(read_signals(path, like=codec), str(path)).stored
        if signals.shape[1:] != codec.stored.shape[1:]:
            (C, T), (c, t) = codec.stored.shape[1:], signals.shape[1:]
            rule = f"signals have {c} channels of {t} points, and the stored ones {C} of {T}"
            raise InputError(f"{path}: {rule}. Write signals of the same shape.")
        if not np.isfinite(signals).all():
            raise InputError(f"{path}: signals must be finite numbers; got NaN or infinity. Write them again.")
        return signals

    def read_labels(self, codec: SignalCodec, path: Path) -> Array | None:
        labels = read_signals(path, like=codec).labels
        if labels is None or codec.labels is None:
            return None
        words = {word: label for label, word in make_class_words(codec.labels).items()} if path.suffix == ".ts" else {}
        return np.array([words.get(label, label) for label in labels])


def _number(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"condition {text!r}: the value of a point must be a number; got {value!r}.")
    return number


def _stretch(codec: SignalCodec, text: str, value: str, start: int, stop: int) -> object:
    """The id of a stored signal, the values of a file, or a number."""
    if index_of(codec.ids, value) is not None:
        return value
    if not Path(value).is_file():
        try:
            return _number(text, value)
        except InputError:
            rule = f"{value!r} must be the id of a stored signal, a file with one signal, or a number"
            raise InputError(f"condition {text!r}: {rule}.") from None
    signals = cut_to_length(read_signals(Path(value)), value).stored
    if len(signals) != 1 or signals.shape[2] not in (codec.length, stop - start):
        rule = f"must hold one signal of {codec.length} or of {stop - start} points"
        raise InputError(f"condition {text!r}: {value} {rule}; got {len(signals)} of {signals.shape[2]} points.")
    return signals[0]


KIND = SignalKind()
