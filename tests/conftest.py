"""Annotations of arrays are checked while the tests run: every function of the package goes through beartype."""

import os
from collections.abc import Iterator
from pathlib import Path

# Two processes test on two processors: threads of theirs would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

install_import_hook("hvil", "type_checks.check")

# The same examples in every run: what passed once passes again, also on a slow machine.
settings.register_profile("hvil", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("hvil")


@pytest.fixture
def no_type_checks() -> Iterator[None]:
    """As a user runs it: wrong types reach the code, which has to refuse them itself."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory of the tests' own: the key by which a user's runs are signed is not the developer's."""
    home = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        yield home
