"""How Sphinx builds the documentation: `make docs` writes it to build/site, and every warning is an error.

Pages are Markdown (MyST) or notebooks (shown with their stored output, run by the tests). The theme is furo.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent / "src"), str(DOCS.parent / "scripts")]

import docs_reference  # noqa: E402 (found by the path above)
from sphinx.ext.napoleon import GoogleDocstring  # noqa: E402

import hvil  # noqa: E402

# Napoleon takes the words before the first colon of an attribute's docstring for its type; ours are sentences.
GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end

project = "hvil"
author = "The hvil developers"
copyright = author
release = version = hvil.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images", "gallery/*.html"]
nitpicky = False  # types in signatures are those of other libraries too, and this build asks no other site

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
nb_execution_mode = "off"
suppress_warnings = ["misc.highlighting_failure"]  # a listing may be cut in the middle of a statement

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature shows them where they are short; docstrings say what matters
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
default_role = "code"  # docstrings set names in single backticks
python_use_unqualified_type_names = True
toc_object_entries = False

html_theme = "furo"
html_title = f"hvil {release}"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: object) -> None:
    """Write the pages that are made from the code."""
    docs_reference.write(DOCS / "reference")
