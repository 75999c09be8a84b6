"""Section "See also" of names that have a counterpart in a library which readers may know."""

from __future__ import annotations

from sphinx.application import Sphinx

SKLEARN, TORCH = "https://scikit-learn.org/stable/modules/generated", "https://docs.pytorch.org/docs/stable/generated"
SDV, ARVIZ = "https://docs.sdv.dev/sdv", "https://python.arviz.org/en/v0.18.0/api/generated"
COUNTERPARTS = {
    "stochattn.fit": (
        ("SDV, single-table synthesizers", f"{SDV}/single-table-data/modeling/synthesizers", "synthesizers of tables"),
    ),
    "stochattn.Synthesizer": (
        ("SDV, conditional sampling", f"{SDV}/single-table-data/sampling/conditional-sampling", "its conditions"),
    ),
    "stochattn.StochasticAttention": (
        ("sklearn.neighbors.KernelDensity", f"{SKLEARN}/sklearn.neighbors.KernelDensity.html", "for equal weights"),
        ("sklearn.mixture.GaussianMixture", f"{SKLEARN}/sklearn.mixture.GaussianMixture.html", "fitted, not stored"),
    ),
    "stochattn.sklearn.StochasticAttentionDensity": (
        ("sklearn.neighbors.KernelDensity", f"{SKLEARN}/sklearn.neighbors.KernelDensity.html", "bandwidth beta**-0.5"),
    ),
    "stochattn.Draws": (("arviz.InferenceData", f"{ARVIZ}/arviz.InferenceData.html", "what `to_arviz` returns"),),
    "stochattn.neighbors.nearest_rows": (
        ("sklearn.neighbors.NearestNeighbors", f"{SKLEARN}/sklearn.neighbors.NearestNeighbors.html", "k neighbors"),
    ),
    "stochattn.nn.stochastic_attention": (
        (
            "torch.nn.functional.scaled_dot_product_attention",
            f"{TORCH}/torch.nn.functional.scaled_dot_product_attention.html",
            "the same without steps",
        ),
    ),
    "stochattn.nn.StochasticMultiheadAttention": (
        ("torch.nn.MultiheadAttention", f"{TORCH}/torch.nn.MultiheadAttention.html", "the same without steps"),
    ),
    "stochattn.nn.Hopfield": (
        ("torch.nn.MultiheadAttention", f"{TORCH}/torch.nn.MultiheadAttention.html", "for n_steps=0"),
        ("hopfield-layers", "https://github.com/ml-jku/hopfield-layers", "a class of the same name"),
    ),
}


def add(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Add links to the docstring of a name, as a box at its end."""
    if name in COUNTERPARTS and what in ("class", "function"):
        entries = [f"   `{title} <{url}>`__: {text}." for title, url, text in COUNTERPARTS[name]]
        lines += ["", ".. seealso::", "", *(line for entry in entries for line in (entry, ""))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Run after numpydoc, which has priority 500."""
    app.connect("autodoc-process-docstring", add, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
