"""Figures of the tutorials, and their order."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    *("proteins", "patients", "few_shot", "stress", "ecg", "inpainting", "ten_pictures", "exact_law"),
    *("transformer", "one_memory", "larger_than_memory", "cluster"),
)
"""Tutorials in the order of the gallery; others follow."""


class TutorialOrder:
    """The key by which sphinx-gallery sorts tutorials."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """The place of a file, and its name."""
        stem = Path(name).stem
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)


def reset(settings: object, fname: str) -> None:
    """The style of figures: readable on a light and on a dark page, and small."""
    import matplotlib.pyplot as plt

    plt.rcdefaults()
    plt.rcParams.update(
        {
            "figure.figsize": (7.0, 3.2),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 10,
            "image.cmap": "gray",
        }
    )
