"""Settings: one source for default, help text, flag and JSON."""

import argparse
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from small_traces import two_traces

from hvil.data.settings import DataSettings
from hvil.gate.errors import InputError
from hvil.gate.settings import add_flags, from_flags, from_mapping, setting, to_mapping
from hvil.learners.config import Config
from hvil.learners.settings import HvilSettings, TrainingSettings


@dataclass(frozen=True)
class ToySettings:
    """For the tests."""

    size: int = setting(3, "how large; 50% is normal", low=1, high=10)
    rate: float = setting(0.5, "how fast", low=0)
    kind: Literal["plain", "fancy"] = setting("plain", "which kind")
    loud: bool = setting(False, "make noise")
    name: str | None = setting(None, "what it is called")


def parse(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, ToySettings)
    return parser.parse_args(flags)


class TestFlags:
    def test_every_field_is_a_flag(self) -> None:
        args = parse("--size", "4", "--rate", "2", "--kind", "fancy", "--loud", "--name", "x")
        assert from_flags(ToySettings, args) == ToySettings(4, 2.0, "fancy", True, "x")

    def test_what_is_not_given_comes_from_the_defaults(self) -> None:
        assert from_flags(ToySettings, parse()) == ToySettings()
        preset = {"size": 7, "loud": True, "other": "ignored"}
        assert from_flags(ToySettings, parse(), preset) == ToySettings(7, loud=True)
        assert from_flags(ToySettings, parse("--size", "2", "--no-loud"), preset) == ToySettings(2)

    def test_the_help_has_doc_and_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            parse("--help")
        text = " ".join(capsys.readouterr().out.split())
        assert "toy settings" in text
        assert "how large; 50% is normal (default: 3)" in text
        assert "--kind {plain,fancy}" in text
        assert "--loud, --no-loud" in text

    def test_numbers_out_of_range_are_refused(self) -> None:
        with pytest.raises(InputError, match="settings: size is 11; expected a number of at least 1, at most 10"):
            from_flags(ToySettings, parse("--size", "11"))
        for wrong in ("-1", "nan", "inf"):
            with pytest.raises(InputError, match=r"settings: rate is .*; expected a number of at least 0"):
                from_flags(ToySettings, parse("--rate", wrong))


class TestMappings:
    @pytest.mark.parametrize("kind", [ToySettings, HvilSettings, TrainingSettings, DataSettings])
    def test_settings_come_back_from_json(self, kind: type) -> None:
        assert from_mapping(kind, to_mapping(kind()), "test") == kind()

    def test_whole_numbers_are_numbers(self) -> None:
        assert from_mapping(ToySettings, {"rate": 2}, "test").rate == 2.0

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], "file: expected an object with settings, not list"),
            ({"sise": 1}, "file: unknown setting 'sise'; known: size, rate, kind, loud, name"),
            ({"size": 1.5}, "file: size is 1.5; expected int"),
            ({"size": True}, "file: size is True; expected int"),
            ({"size": None}, "file: size is None; expected int"),
            ({"rate": "fast"}, "file: rate is 'fast'; expected float"),
            ({"kind": "odd"}, "file: kind is 'odd'; expected one of plain, fancy"),
            ({"kind": []}, "file: kind is []; expected one of plain, fancy"),
            ({"loud": 1}, "file: loud is 1; expected bool"),
            ({"name": 1}, "file: name is 1; expected str"),
        ],
    )
    def test_wrong_values_are_refused(self, values: Any, message: str) -> None:
        with pytest.raises(InputError) as caught:
            from_mapping(ToySettings, values, "file")
        assert str(caught.value) == message


class TestConfig:
    CONFIG = Config.of(two_traces(attributes={"task": "toy"}), "tree:2x2", HvilSettings(hidden=7))

    def test_a_configuration_comes_back_from_json(self) -> None:
        value = json.loads(json.dumps(self.CONFIG.to_mapping()))
        assert Config.from_mapping(value, "config.json") == self.CONFIG
        assert self.CONFIG.task == "toy"

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("format", 99, "not a configuration of format 2"),
            ("action_names", "ab", "action_names must be a list of names"),
            ("observation_shape", [0], "observation_shape must be a list of whole numbers"),
            ("task", 5, "task must be text"),
            ("call_graph", None, "call graph: expected"),
            ("call_graph", {"procedures": {"a": {"calls": ["b"]}}}, "call graph: procedure 'a' calls 'b', an unknown"),
            ("model", {"hiden": 1}, "model: unknown setting 'hiden'"),
            ("training", {"updates": -1}, "training: updates is -1; expected a number of at least 0"),
        ],
    )
    def test_a_damaged_configuration_is_refused(self, key: str, value: Any, message: str) -> None:
        with pytest.raises(InputError, match=f"^config.json: {message}"):
            Config.from_mapping(self.CONFIG.to_mapping() | {key: value}, "config.json")
