"""Karel: the language in its two forms, the world, the generator of demonstrations, the environment."""

from hvil.domains.karel.environment import KarelEnv
from hvil.domains.karel.generator import generate
from hvil.domains.karel.interpreter import Execution, Outcome, execute
from hvil.domains.karel.lexer import Form, KarelSyntaxError
from hvil.domains.karel.parser import parse
from hvil.domains.karel.printer import print_program
from hvil.domains.karel.programs import HIERARCHICAL, PROGRAMS
from hvil.domains.karel.syntax import ACTIONS, OBSERVATIONS, Program
from hvil.domains.karel.task import KarelTask
from hvil.domains.karel.world import World

__all__ = [
    "ACTIONS",
    "HIERARCHICAL",
    "OBSERVATIONS",
    "PROGRAMS",
    "Execution",
    "Form",
    "KarelEnv",
    "KarelSyntaxError",
    "KarelTask",
    "Outcome",
    "Program",
    "World",
    "execute",
    "generate",
    "parse",
    "print_program",
]
