"""Generated histories of returns, and synthesizers of their windows."""

import numpy as np

from stochattn.kinds.returns.codec import ReturnsCodec
from stochattn.kinds.returns.kind import KIND
from stochattn.synthesizer.synthesizer import Synthesizer


def made_returns(days=300, N=6, seed=0):
    """A market factor whose volatility changes every 50 days, and heavy-tailed tickers."""
    rng = np.random.default_rng(seed)
    volatility = np.where(np.arange(days) // 50 % 2, 0.03, 0.008)[:, None]
    return volatility * (0.7 * rng.standard_normal((days, 1)) + 0.6 * rng.standard_t(4, (days, N))) + 2e-4


def names(N):
    return [f"T{i}" for i in range(N)]


def made_codec(days=300, N=6, seed=0, **options):
    return ReturnsCodec.fit(made_returns(days, N, seed), names(N), **options)


def synth_of(codec, **options):
    """A synthesizer of a codec's windows, or of paths, with these options of the generator."""
    return Synthesizer.of(KIND, codec, "windows", **options)


def around(codec, k, beta, rng, **options):
    """New windows around the stored windows k (n,), at this beta."""
    return synth_of(codec, beta=beta, **options).generator.decoder.around(k, rng)
