"""Run `hvil fit` undisturbed, then again with `kill -9` at random moments, each followed by `--resume`.

A script of its own, so that it can fork the loaded program: a new process for each kill without a new import of torch.
Arguments: a directory, how many kills, then those of `hvil fit`. Prints how many kills hit a living process.
"""

import os
import signal
import sys
import time

import numpy as np


def start(arguments: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    from hvil.cli.main import main

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os._exit(main(["fit", *arguments]))


def finish(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"hvil fit ended with status {status}")


def main() -> None:
    directory, kills, *arguments = sys.argv[1:]
    # What the children need, loaded once; nothing is computed here, because threads do not survive a fork.

    import hvil.analysis.evaluation
    import hvil.domains
    import hvil.learners.baselines
    import hvil.learners.hvil
    import hvil.training.run  # noqa: F401

    finish(start([*arguments, "--out", f"{directory}/warm-up"]))
    began = time.monotonic()
    finish(start([*arguments, "--out", f"{directory}/undisturbed"]))
    whole = time.monotonic() - began
    rng = np.random.default_rng()
    hits = 0
    disturbed = [*arguments, "--out", f"{directory}/disturbed", "--resume"]
    for _ in range(int(kills)):
        child = start(disturbed)
        time.sleep(rng.uniform(0, whole / 3))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        hits += os.WIFSIGNALED(status)
    finish(start(disturbed))
    print(hits)


if __name__ == "__main__":
    main()
