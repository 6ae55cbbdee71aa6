"""Annotations of arrays are checked while the tests run: every function of the package goes through beartype."""

from jaxtyping import install_import_hook

install_import_hook("hvil", "type_checks.check")
