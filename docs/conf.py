"""Settings of the documentation site: ``make docs`` builds it, with warnings as errors and without a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# Notebooks run in processes of their own, which inherit this; results do not depend on the number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A backend named here would reach the notebooks' processes, and Agg shows no picture in a notebook.
os.environ.pop("MPLBACKEND", None)

from dpcape import __version__  # noqa: E402  (after the number of threads is fixed)

project = "dpcape"
author = "the dpcape contributors"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "command_help",
    "house_docstrings",
]
exclude_patterns = ["_build", "_templates", "_extensions", "gallery/*.ipynb", "gallery/*.py", "**.ipynb_checkpoints"]
templates_path = ["_templates"]
# The first suffix is what autosummary writes.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

# Every reference must lead somewhere; names of other packages are not linked, because that would need a network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!dpcape).*")]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"member-order": "bysource"}
python_use_unqualified_type_names = True
python_display_short_literal_types = True
# "On this page" has no room for the name of the class before each of its methods.
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are kept without outputs and run when the site is built.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True
nb_execution_in_temp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", "house_docstrings.quiet_figures"),
    "image_scrapers": ("matplotlib",),
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
}

html_theme = "pydata_sphinx_theme"
html_title = "dpcape"
html_static_path = ["_static"]
html_css_files = ["dpcape.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": []}
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "navbar_center": ["navbar-nav"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
