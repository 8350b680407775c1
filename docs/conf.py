"""The site of the documentation: `make docs`, with warnings as errors."""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

import fieldfit

sys.path.insert(0, str(Path(__file__).parent))
from gallery import draw_for_site

project = "fieldfit"
author = "The fieldfit authors"
copyright = "The fieldfit authors"
release = version = fieldfit.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "skeletons"]
html_theme = "furo"
html_title = "fieldfit"
html_static_path: list[str] = []
html_extra_path = ["reproduction.html"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are numpydoc's. Lists of shared parameters are written once and filled in at import.
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"

# Links to other projects' pages need a network; a build without one leaves them as text.
intersphinx_mapping: dict[str, tuple[str, None]] = {}
nitpicky = False


def skip_inherited(app: object, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn's base classes define."""
    home = getattr(member, "__module__", None) or ""
    return True if home.startswith("sklearn.") or name.startswith(("set_", "get_metadata_routing")) else None


def show_shapes_as_text(app: object, doctree: nodes.document) -> None:
    """Types of arguments contain shapes such as (n, m). Sphinx would link these letters to attributes of the same name."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        target = reference.get("reftarget", "")
        if (
            reference.get("refdomain") == "py"
            and reference.get("reftype") == "class"
            and target.islower()
            and "." not in target
        ):
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    """Connect the rules above."""
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("doctree-read", show_shapes_as_text)
    app.connect("build-finished", draw_for_site)
