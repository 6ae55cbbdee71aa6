"""An extracted program as a Python file that runs on its own, on the task's Gymnasium environment."""

from hvil.analysis.explain.explanation import Explanation
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.gate.errors import InputError

_HEAD = '''"""A policy for {task} that was learned from demonstrations, as a program.

It {fidelity}.
Run it: python FILE [EPISODES] [SEED]
"""

import sys

import numpy as np

from hvil.data.tasks import find_task

TASK = {task_literal}
LIMIT = 10_000  # actions of an episode, and lines without an action, after which it is given up

environment = find_task(TASK).environment()
frames = []  # of the procedures that are running: how many steps each has taken, and the last one
taken = idle = 0


class Ended(Exception):
    """The environment has ended the episode, or it was given up."""


def sense(observation):
    """Give names to what is observed."""
    globals().update(
{senses}
    )


def took(step):
    """Count a step of the procedure that is running."""
    frames[-1] = frames[-1][0] + 1, step
    look()


def look():
    """Give names to the frame on top."""
    if frames:
        globals().update(counter=frames[-1][0], last=frames[-1][1])


def act(step, number):
    """Take an action in the environment."""
    global taken, idle
    took(step)
    taken, idle = taken + 1, 0
    observation, _, terminated, truncated, _ = environment.step(number)
    sense(np.asarray(observation).ravel())
    if terminated or truncated or taken > LIMIT:
        raise Ended


def called(procedure):
    """Make a function a procedure, with a frame of its own."""

    def call():
        if frames:
            took(call)
        frames.append((0, None))
        look()
        procedure()
        frames.pop()
        look()

    return call


def watch(frame, event, argument):
    """Stop a loop that does nothing."""
    global idle
    idle += 1
    if idle > LIMIT:
        raise Ended
    return watch


'''

_TAIL = '''

{wrapped}


def play(seed):
    """One episode; whether it was a success."""
    global taken, idle
    taken = idle = 0
    frames.clear()
    observation, _ = environment.reset(seed=seed)
    sense(np.asarray(observation).ravel())
    try:
        sys.settrace(watch)
        {root}()
    except Ended:
        return False
    finally:
        sys.settrace(None)
    return bool(environment.step({end})[4].get("success", False))


if __name__ == "__main__":
    episodes, first = (int(text) for text in (sys.argv[1:3] + ["100", "0"][len(sys.argv) - 1 :]))
    successes = sum(play(first + i) for i in range(episodes))
    print(f"{{successes}} of {{episodes}} episodes on {{TASK}} succeeded")
'''


def python_file(explanation: Explanation) -> str:
    """The file's text.

    Raises:
        InputError: there is no environment to run it on.
    """
    if explanation.task is None:
        raise InputError("a Python file needs an environment to run on; this run's data came from no known task")
    words, program = explanation.words, explanation.program
    head = _HEAD.format(
        task=_in_docstring(explanation.task.name),
        task_literal=repr(explanation.task.name),
        fidelity=explanation.fidelity,
        senses="\n".join(f"        {name}={expression}," for name, expression in _senses(words)),
    )
    actions = [f"def {name}():\n    act({name}, {number})\n" for number, name in enumerate(words.actions)]
    names = [words.procedures[procedure] for procedure in program.blocks]
    tail = _TAIL.format(
        wrapped="\n".join(f"{name} = called({name})" for name in names),
        root=words.procedures[program.root],
        end=len(words.actions),
    )
    return head + "\n\n".join([*actions, *_functions(explanation.source)]) + tail


def _functions(source: str) -> list[str]:
    return [part.rstrip("\n") + "\n" for part in source.split("\n\n")]


def _senses(words: Vocabulary) -> list[tuple[str, str]]:
    kinds = {"truth": "bool", "number": "float"}
    return [(q.name, f"{kinds.get(q.kind, 'int')}({q.expression})") for q in words.quantities]


def _in_docstring(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")
