"""The paper's three domains, and two whose teachers call themselves, as tasks and as Gymnasium environments.

Importing this package registers `hvil/BubbleSort-v0`, `hvil/Karel-v0`, `hvil/MnistParity-v0`, `hvil/ThereAndBack-v0`
and `hvil/TreeWalk-v0`. A domain's own modules are imported only when an environment or a task of it is made. What a
task is, and how a TASK string names one, is said in `hvil.data.tasks`.
"""

import gymnasium

__all__ = ["ENVIRONMENT_IDS"]

# The limits leave room for every teacher: bubble sort takes 400 actions at most, a Karel program fewer than
# 1,000 events, MNIST parity one action, there and back 802 actions at most, a tree walk 898; then comes the terminate
# step.
_ENVIRONMENTS = {
    "hvil/BubbleSort-v0": ("hvil.domains.bubblesort.environment:BubbleSortEnv", 1_000),
    "hvil/Karel-v0": ("hvil.domains.karel.environment:KarelEnv", 1_000),
    "hvil/MnistParity-v0": ("hvil.domains.mnist_parity.environment:MnistParityEnv", 2),
    "hvil/ThereAndBack-v0": ("hvil.domains.thereandback.environment:ThereAndBackEnv", 1_000),
    "hvil/TreeWalk-v0": ("hvil.domains.treewalk.environment:TreeWalkEnv", 1_000),
}
ENVIRONMENT_IDS = tuple(_ENVIRONMENTS)

for _id, (_entry_point, _limit) in _ENVIRONMENTS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(id=_id, entry_point=_entry_point, max_episode_steps=_limit)
