"""Local heads: each pixel attends over the memories with the window that it sees, while noise and window shrink.

One head per pixel p. At noise level σ, with W(p) the square window of radius·σ pixels around p, cut off at the edge,

    w_k(p) ∝ r_k exp(−‖x − m_k‖²_{W(p)} / 2σ²)        x₀(p) = Σ_k w_k(p) m_k(p)        x ← x₀ + (σ′/σ)(x − x₀)

from white noise of level σ_max around the mean picture down to σ_min, where x₀ is returned. A window that covers the
picture is p_beta's own attention, and ends at a memory. Smaller windows take each part of a picture from memories of
its own, and overlap, so that parts fit: new pictures, as sharp as the stored ones. All channels share a window.

Noise is measured in units of the memories' contrast, so that nothing depends on the scale of pixel values. A window is
2·radius·σ pixels wide, and the memories differ by about as much in it; noise along any one direction is σ. So the
signal that a head sees is 2·radius times the noise at every level, and the radius alone says how certain heads are.

Conditioned pixels have their values throughout, without noise, and count more than the pixels beside them:
(x − m_k)² / 2(σ/4)² in the sums above. If they had the noise of each level and no more weight, the pixels around them
would hardly agree with them, because the initial noise counts for as much.
"""

from __future__ import annotations

from ..._backend.arrays import Array, ArrayLike, empty, namespace
from ..._backend.checks import choice, count, non_negative
from ..._backend.progress import Progress
from ..._backend.random import Purpose, seed_of
from .annealing import MaskAndPicture, PixelConstraint, WindowAnnealing
from .matched_distance import RadiusRule, matched_distance_radius
from .window_attention import PictureMemories


class LocalHeads:
    """New pictures from stored ones: every pixel attends over the memories with the window that it sees. Immutable.

    images: (K, H, W) or (K, H, W, channels), array or tensor; whole numbers become float32
    log_r:  (K,) log-multiplicities, −inf for a memory that is masked out; None for equal ones
    radius: window radius in pixels per unit of noise; None for the matched-distance rule. Large radii recall, small
            ones recombine
    illumination: whether illumination and detail are channels of their own, so that parts of photographs fit however
            they are lit; None for photographs only
    progress: whether a bar shows while the radius is chosen; None for a bar on a terminal or in a notebook

    The attribute `radius_rule` says how the radius was set, and `splits_illumination` whether illumination is split.

    >>> import numpy as np
    >>> stripes = np.sin(np.arange(12)[None, None] / np.arange(2.0, 6.0)[:, None, None]) * np.ones((1, 12, 1))
    >>> LocalHeads(stripes, radius=2).sample(3, rng=0).shape
    (3, 12, 12)
    """

    def __init__(
        self,
        images: ArrayLike,
        log_r: ArrayLike | None = None,
        radius: float | None = None,
        *,
        illumination: bool | None = None,
        progress: bool | None = None,
    ) -> None:
        self._memories = PictureMemories(images, log_r, choice("illumination", illumination))
        self.splits_illumination = self._memories.illumination is not None
        if radius is None:
            self.radius, self.radius_rule = matched_distance_radius(self._memories, progress)
        else:
            self.radius, self.radius_rule = non_negative("radius", radius), RadiusRule.GIVEN

    def sample(
        self,
        n: int,
        rng: object = None,
        conditioned: MaskAndPicture | None = None,
        *,
        progress: bool | None = None,
    ) -> Array:
        """n new pictures, (n, H, W) or (n, H, W, channels), in the memories' library, dtype and device.

        Picture i depends on (seed, i) alone. Without illumination every pixel lies, to rounding, between the memories'
        smallest and largest value there, unless it is conditioned.

        conditioned: (mask, picture): every new picture has the picture's values where the mask is true
        """
        n, seed, memories = count("n", n), seed_of(rng), self._memories
        if conditioned is not None and self.splits_illumination:
            raise ValueError("conditioned pixels need heads that do not split illumination: pass illumination=False.")
        constraint = None if conditioned is None else PixelConstraint.of(conditioned, memories)
        annealing = WindowAnnealing(memories, self.radius, constraint)
        drawn = empty((n, memories.H, memories.W, memories.C), memories.rows)
        with Progress(n, "drawing pictures", progress) as bar:
            for first in range(0, n, annealing.batch):
                drawn[first : first + annealing.batch] = annealing.draw(first, seed, Purpose.START)[: n - first]
                bar.update(min(first + annealing.batch, n))
        pictures = memories.pictures(drawn)
        if constraint is None:
            return pictures
        shape = tuple(pictures.shape[1:])
        return namespace(pictures).where(constraint.mask.reshape(shape), constraint.picture.reshape(shape), pictures)

    def __repr__(self) -> str:
        kept = self._memories
        return f"LocalHeads(K={kept.K} memories of {kept.H} × {kept.W} pixels, radius={self.radius:.3g})"
