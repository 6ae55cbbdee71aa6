"""A small part of `python -m benchmarks.fuzz`, in every test run; and the defects that fuzzing found."""

import json
from pathlib import Path

import pytest
from benchmarks.fuzz import fuzz
from toy_learner import toy_traces

import hvil
from hvil.gate.errors import InputError


@pytest.mark.filterwarnings("ignore")
def test_whatever_the_bytes_the_answer_is_clear() -> None:
    for kind, tally in fuzz(800, first_seed=7).items():
        assert tally.cases >= 100
        assert not tally.defects, f"{kind}: {list(tally.defects)}"


def test_a_small_configuration_cannot_ask_for_a_large_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hvil.fit(toy_traces(4), "tree:2x2", model="feedforward", units=4, updates=1, out=run)
    config = json.loads((run / "config.json").read_text())
    for shape, units in (([2**30], 4), ([2**30, 2**30], 4), ([3], 65536)):
        config["observation_shape"], config["model"]["units"] = shape, units
        config.pop("inputs", None)
        config["observation_names"] = []
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(InputError, match=r"another configuration|as large as the configuration"):
            hvil.load(run)
