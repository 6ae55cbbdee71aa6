"""Settings: one source for default, help text, flag and JSON."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        defaults = {"size": 7, "loud": True, "other": "ignored"}
        assert from_flags(ToySettings, parse(), defaults) == ToySettings(7, loud=True)
        assert from_flags(ToySettings, parse("--size", "2", "--no-loud"), defaults) == ToySettings(2)

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
            ([], "file: expected an object, not list"),
            ({"sise": 1}, "file: unknown setting 'sise'; known: size, rate, kind, loud, name"),
            ({"size": 1.5}, "file: size is 1.5; expected a whole number"),
            ({"size": True}, "file: size is True; expected a whole number"),
            ({"size": None}, "file: size is None; expected a whole number"),
            ({"rate": "fast"}, "file: rate is 'fast'; expected a number"),
            ({"kind": "odd"}, "file: kind is 'odd'; expected one of plain, fancy"),
            ({"kind": []}, "file: kind is []; expected one of plain, fancy"),
            ({"loud": 1}, "file: loud is 1; expected true or false"),
            ({"name": 1}, "file: name is 1; expected text"),
        ],
    )
    def test_wrong_values_are_refused(self, values: Any, message: str) -> None:
        with pytest.raises(InputError) as caught:
            from_mapping(ToySettings, values, "file")
        assert str(caught.value) == message


@dataclass(frozen=True)
class Part:
    """A part of a document."""

    weight: float

    def __post_init__(self) -> None:
        if self.weight == 13:
            raise InputError("the weight brings bad luck")


@dataclass(frozen=True)
class Document:
    """Everything that the validator understands."""

    title: str
    sizes: tuple[int, ...] = setting((), "several sizes", low=1, high=9)
    parts: Mapping[str, Part] = field(default_factory=dict)
    best: Part | None = None
    words: list[str] = field(default_factory=list)
    anything: Any = None


class TestDocuments:
    def test_lists_mappings_and_nested_dataclasses_are_built(self) -> None:
        value = {"title": "t", "sizes": [1, 9], "parts": {"a": {"weight": 1}}, "best": {"weight": 2.5}, "words": ["w"]}
        expected = Document("t", (1, 9), {"a": Part(1.0)}, Part(2.5), ["w"])
        assert from_mapping(Document, value, "file") == expected
        assert from_mapping(Document, {"title": "t", "anything": [{}]}, "file") == Document("t", anything=[{}])
        assert from_mapping(Document, {"title": "t", "best": None}, "file") == Document("t")
        assert from_mapping(Document, json.loads(json.dumps(to_mapping(expected))), "file") == expected

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({}, "missing title"),
            ({"title": "", "a": 1, 2: 3}, "unknown setting 'a', 2; known: title, sizes, parts, best, words, anything"),
            ({"title": None}, "title is None; expected text"),
            ({"title": "", "sizes": 3}, "sizes is 3; expected a list of whole numbers"),
            ({"title": "", "sizes": [1, "2"]}, "sizes[1] is '2'; expected a whole number"),
            ({"title": "", "sizes": [1, 10]}, "sizes[1] is 10; expected a number of at least 1, at most 9"),
            ({"title": "", "words": "abc"}, "words is 'abc'; expected a list of texts"),
            ({"title": "", "parts": []}, "parts is []; expected an object with names"),
            ({"title": "", "parts": {"a": 1}}, "parts.a: expected an object, not int"),
            ({"title": "", "parts": {"a": {"weight": float("inf")}}}, "parts.a: weight is inf; expected a number"),
            ({"title": "", "best": {"weight": -(10**400)}}, "best: weight is -1000"),
            ({"title": "", "best": {"weight": 13}}, "best: the weight brings bad luck"),
            ({"title": ["x" * 1000] * 1000}, "title is ['xxx"),
        ],
    )
    def test_the_error_names_the_position_and_what_would_be_right(self, values: Any, message: str) -> None:
        with pytest.raises(InputError) as caught:
            from_mapping(Document, values, "file")
        assert str(caught.value).startswith(f"file: {message}")
        assert len(str(caught.value)) < 700


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
