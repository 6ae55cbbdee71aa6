"""How Sphinx builds the documentation: `make docs` writes it to build/site, and every warning is an error.

Pages are Markdown (MyST) or notebooks (shown with their stored output, run by the tests). The theme is furo.
"""

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent / "src"), str(DOCS.parent / "scripts")]

import docs_reference  # noqa: E402 (found by the path above)
import gallery  # noqa: E402 (idem)
from sphinx.application import Sphinx  # noqa: E402
from sphinx.ext.napoleon import GoogleDocstring  # noqa: E402

import hvil  # noqa: E402

# Napoleon takes the words before the first colon of an attribute's docstring for its type; ours are sentences.
GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end

project = "hvil"
author = "The hvil developers"
copyright = author
release = version = hvil.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images", "gallery/*.md"]  # gallery.md includes the sections in gallery/
nitpicky = False  # types in signatures are those of other libraries too, and this build asks no other site

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
nb_execution_mode = "off"
suppress_warnings = ["misc.highlighting_failure"]  # a listing may be cut in the middle of a statement

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature shows them where they are short; docstrings say what matters
autodoc_default_options = {"members": True}
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["site"]  # becomes a part of the site as it is: the reports of the gallery


def level_captions(app: Sphinx, page: str, template: str, context: dict[str, Any], *_: object) -> None:
    """Give the captions of the navigation, which are headings, the level that a screen reader needs."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def drop_field_aliases(app: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Say nothing of a field of a named tuple that has no words of its own; Python says `Alias for field number 1`."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Sphinx) -> None:
    """Write the pages that are made from the code, and mend what Sphinx and the theme leave to be mended."""
    docs_reference.write(DOCS / "reference")
    gallery.write_reports(DOCS / "site" / "gallery")
    app.connect("html-page-context", level_captions, priority=900)  # after the theme has made its navigation
    app.connect("autodoc-process-docstring", drop_field_aliases)
