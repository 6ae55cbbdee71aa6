"""Reading and writing Karel in both forms."""

import random

import pytest
from karel_programs import random_program, random_worlds

from hvil.domains.karel import PROGRAMS, Form, KarelSyntaxError, execute, parse, print_program
from hvil.domains.karel.parser import MAX_NESTING
from hvil.domains.karel.programs import named_or_file, named_or_source
from hvil.domains.karel.syntax import Action, Condition, If, Program, Repeat, While
from hvil.gate.errors import InputError


@pytest.mark.parametrize("form", Form)
def test_parse_print_parse_is_the_identity_on_random_programs(form):
    rng = random.Random(1)
    for _ in range(1_000):
        program = random_program(rng)
        printed = print_program(program, form)
        parsed = parse(printed)
        assert parsed == program
        assert print_program(parsed, form) == printed


def test_conversion_between_the_forms_keeps_the_behaviour():
    rng = random.Random(2)
    worlds = random_worlds(2, 20)
    for _ in range(100):
        curly = parse(print_program(random_program(rng), one_line=True))
        tokens = parse(print_program(curly, Form.TOKENS))
        back = parse(print_program(tokens, Form.CURLY))
        world = rng.choice(worlds)
        ends = []
        for program in (curly, tokens, back):
            end = world.copy()
            execution = execute(program, end)
            ends.append((end, execution.outcome, execution.events, execution.actions))
        assert ends[0] == ends[1] == ends[2]


def test_both_forms_of_an_example_mean_the_same_tree():
    curly = """
    def run() {
        repeat(4) { move(); }
        while (not frontIsClear()) { turnLeft(); }
        if (noMarkersPresent()) { putMarker(); }
        if (not (markersPresent())) { turnRight(); } else { pickMarker(); }
    }
    """
    tokens = (
        "DEF run m( REPEAT R=4 r( move r) WHILE c( not c( frontIsClear c) c) w( turnLeft w) "
        "IF c( noMarkersPresent c) i( putMarker i) "
        "IFELSE c( not c( markersPresent c) c) i( turnRight i) ELSE e( pickMarker e) m)"
    )
    tree = Program(
        (
            Repeat(4, (Action("move"),)),
            While(Condition("frontIsClear", negated=True), (Action("turnLeft"),)),
            If(Condition("noMarkersPresent"), (Action("putMarker"),)),
            If(Condition("markersPresent", negated=True), (Action("turnRight"),), (Action("pickMarker"),)),
        )
    )
    assert parse(curly) == parse(tokens) == tree
    assert print_program(tree, Form.TOKENS) == tokens


@pytest.mark.parametrize("name", PROGRAMS)
def test_paper_programs_print_as_the_paper_prints_them(name):
    assert print_program(named_or_source(name), one_line=True) == PROGRAMS[name]


SYNTAX_ERRORS = [
    ("", 1, 1, "'def run()'"),
    ("def main() { move(); }", 1, 5, "'run'"),
    ("move();", 1, 1, "'def run()'"),
    ("def run() {\n    move()\n}", 3, 1, "';'"),
    ("def run() {\n    jump();\n}", 2, 5, "a statement"),
    ("def run() { }", 1, 13, "a statement"),
    ("def run() { move();", 1, 20, "a statement"),
    ("def run() { if (frontIsClear) { move(); } }", 1, 29, "'('"),
    ("def run() { if (wallAhead()) { move(); } }", 1, 17, "a predicate"),
    ("def run() { while (not not frontIsClear()) { move(); } }", 1, 24, "a predicate"),
    ("def run() { repeat(x) { move(); } }", 1, 20, "a number"),
    ("def run() { repeat(9999999999) { move(); } }", 1, 20, "a number"),
    ("def run() { move(); } }", 1, 23, "the end of the program"),
    ("def run() { move(); }\n def run() { move(); }", 2, 2, "the end of the program"),
    ("def run() { move(); @ }", 1, 21, "a name"),
    ("def run() { move(); else { move(); } }", 1, 21, "a statement"),
    ("DEF main m( move m)", 1, 5, "'run'"),
    ("DEF run m( move", 1, 16, "a statement"),
    ("DEF run m(\n WHILE c( frontIsClear c) i( move i) m)", 2, 27, "'w('"),
    ("DEF run m( IFELSE c( frontIsClear c) i( move i) m)", 1, 49, "'ELSE'"),
    ("DEF run m( REPEAT 4 r( move r) m)", 1, 19, "R=NUMBER"),
    ("DEF run m( REPEAT move r( move r) m)", 1, 19, "R=NUMBER"),
    ("DEF run m( IF c( not frontIsClear c) i( move i) m)", 1, 22, "'c('"),
    ("DEF run m( move m) move", 1, 20, "the end of the program"),
]


@pytest.mark.parametrize(("source", "line", "column", "expected"), SYNTAX_ERRORS)
def test_syntax_errors_say_line_column_and_what_was_expected(source, line, column, expected):
    with pytest.raises(KarelSyntaxError) as caught:
        parse(source, source_name="x.karel")
    assert (caught.value.line, caught.value.column) == (line, column), caught.value
    assert expected in caught.value.expected
    message = str(caught.value)
    assert message.startswith(f"x.karel: line {line}, column {column}: expected ")
    assert "\n" not in message


def test_deep_nesting_is_refused_instead_of_exhausting_the_stack():
    def nested(depth):
        return "def run() {" + "repeat(1) {" * depth + "move();" + "}" * depth + "}"

    assert isinstance(parse(nested(MAX_NESTING - 1)), Program)
    for depth in (MAX_NESTING, 100_000):
        with pytest.raises(KarelSyntaxError, match="nested blocks"):
            parse(nested(depth))


def test_positions_do_not_count_for_equality_but_are_kept():
    spaced = parse("def run() {\n\n   move();\n}")
    assert spaced == parse("def run() { move(); }")
    assert spaced.body[0].position == (3, 4)


def test_programs_come_from_files_in_both_forms(tmp_path):
    for form in Form:
        path = tmp_path / f"{form.value}.karel"
        path.write_text(print_program(named_or_source("F"), form))
        assert named_or_file(str(path)) == named_or_source("F")


def test_a_bad_program_file_is_one_clear_line(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    wrong = tmp_path / "wrong.karel"
    wrong.write_text("def run() { hop(); }")
    cases = [
        (tmp_path / "missing", "no such file"),
        (binary, "cannot be read as text"),
        (tmp_path, "cannot be read"),
        (wrong, "line 1, column 13: expected a statement"),
    ]
    for path, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            named_or_file(str(path))
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
