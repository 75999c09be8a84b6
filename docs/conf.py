"""Settings of the documentation site. `make docs` builds it into out/site, without a network."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_ext")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import stochattn  # noqa: E402

for module in ("bounds", "conditioning", "energy", "metrics", "multihead", "neighbors", "temperature"):
    sys.modules[f"stochattn.{module}"] = getattr(stochattn, module)  # documented under their public names

project, author, copyright = "stochattn", "The stochattn authors", "the stochattn authors, MIT license"
version = release = stochattn.__version__

extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser", "sphinx_design"),
    *("sphinx_gallery.gen_gallery", "mathml", "docstrings", "counterparts", "pages"),
]
exclude_patterns = ["_build", "tutorials", "reproduction/results", "**/GALLERY_HEADER.rst"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
default_role = "py:obj"  # `name` in a docstring is a link where the name is documented
needs_sphinx = "8.1"
nitpicky = False

# Pages in Markdown.
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_dmath_allow_digits = False

# The reference: one page per public name, from its docstring.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # docstrings say shapes, which say more than the types of arrays
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_use_plots = False
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

# Tutorials: executed programs, each with a notebook to download.
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "auto_tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery.TutorialOrder",
    "backreferences_dir": "auto_tutorials/backreferences",
    "doc_module": ("stochattn",),
    "show_memory": False,
    "write_computation_times": False,  # the page of times loads scripts from other hosts
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 0.5,
    "abort_on_example_error": True,
    "reset_modules": ("gallery.reset",),
    "matplotlib_animations": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "pydata_sphinx_theme"
html_title = f"stochattn {stochattn.__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "stochattn", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "back_to_top_button": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "migration": []}
html_context = {"default_mode": "auto"}
