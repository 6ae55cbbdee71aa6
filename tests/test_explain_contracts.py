"""What procedures read, how they are entered and what holds when they return."""

import json
from collections.abc import Mapping

import pytest
from table_policy import RETURN, karel_policy, program_f

from hvil.analysis.explain import Explanation, explain
from hvil.data.tasks import find_task

KAREL_F = find_task("karel:F")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=200, fresh=50)


def test_comments_say_what_held_in_every_episode(explained: Explanation) -> None:
    contracts = {explained.graph.procedures[h]: contract for h, contract in explained.contracts.items()}
    assert set(contracts) == {"root", "step"}
    assert contracts["root"].reads == ("markers_present",)
    assert set(contracts["step"].reads) == {"front_is_clear", "right_is_clear"}
    assert contracts["root"].lines(explained.words)[-1] == "# returns with markers_present"
    assert contracts["step"].lines(explained.words)[1:] == ["# entered with not markers_present"]


def test_the_commented_program_is_the_program_with_comments(explained: Explanation) -> None:
    lines = [line for line in explained.commented.splitlines() if not line.strip().startswith("#")]
    assert lines == explained.source.splitlines()
    assert "def step():\n    # reads front_is_clear, right_is_clear\n    # entered with not" in explained.commented


def test_contracts_come_back_from_json(explained: Explanation) -> None:
    again = Explanation.from_mapping(json.loads(json.dumps(explained.to_mapping())), explained.graph, KAREL_F)
    assert again.contracts == explained.contracts
    assert again.commented == explained.commented
    older = {name: value for name, value in explained.to_mapping().items() if name not in ("statements", "sets")}
    assert Explanation.from_mapping(older, explained.graph, KAREL_F).contracts == {}


def test_a_program_without_conditions_reads_nothing() -> None:
    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        return RETURN if counter == 3 else "turnLeft"

    explanation = explain(karel_policy({"root": root}, {}), KAREL_F, episodes=20, fresh=10)
    (contract,) = explanation.contracts.values()
    assert contract.reads == ()
    assert explanation.source == "def root():\n    for _ in range(3):\n        turn_left()\n"
