"""The tree walk as a Gymnasium environment. Trees are described in `trees`, pictures are drawn in `drawing`."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hvil.data.tasks import terminate_action
from hvil.domains.treewalk.teacher import ACTIONS, LEFT, MARK, OBSERVATIONS, RIGHT, observe
from hvil.domains.treewalk.trees import DEFAULT_NODES, NOBODY, NODES, family, random_trees


class TreeWalkEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Mark every node of a binary tree and come back to the root.

    ## Description
    A binary tree (its number of nodes is uniform in 1..6; of the nodes below a node, a uniform number is below its left
    child) and a walker, who begins at the root and sees the current node alone. Coming up from a child, nothing shows
    which one it was: it has to be remembered.

    ## Action space
    `Discrete(5)`: 0 `mark` (the current node), 1 `left`, 2 `right` (down to a child), 3 `up` (to the parent),
    4 `terminate` (see `hvil.data.tasks`).

    ## Observation space
    `Box` of two numbers, 0 or 1: whether the current node has a left child, and a right child.

    ## Starting state
    A random tree. `reset(options={"tree": [3, 0, 1, 0]})` starts with the given one: for each node, in the order of a
    depth-first walk, 0 for a leaf, 1 for a left child alone, 2 for a right child alone, 3 for both.

    ## Rewards
    1 for a successful end, else 0.

    ## Episode end
    Terminated by the `terminate` action. It is a success (`info["success"]`) if every node is marked and the walker is
    at the root. Going where there is no node, or marking a node twice, is a crash: it ends the episode without success,
    and `info["crash"]` says which. Truncated by the step limit.

    ## Arguments
    `nodes=(1, 6)`: range of the number of nodes. `render_mode`: `ansi` or `rgb_array`.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's name)

    def __init__(self, render_mode: str | None = None, nodes: tuple[int, int] = DEFAULT_NODES) -> None:
        NODES.check(*nodes)
        self.render_mode = render_mode
        self.nodes = nodes
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (len(OBSERVATIONS),), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS) + 1)
        self._at = 0
        self._begin([0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start with a random tree, or with `options["tree"]`."""
        super().reset(seed=seed)
        if options is not None and "tree" in options:
            self._begin(list(options["tree"]))
        else:
            low, high = self.nodes
            size = self.np_random.integers(low, high + 1, size=1)
            tree = random_trees(size, self.np_random.random((1, high)))[0]
            self._begin(tree[tree >= 0].tolist())
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Mark, go to a neighbour, or terminate."""
        if action == terminate_action(ACTIONS):
            success = all(self._marked) and self._at == 0
            return self._observation(), float(success), True, False, {"success": success}
        if action == MARK:
            crash = "mark where there is a mark" if self._marked[self._at] else ""
            self._marked[self._at] = True
        else:
            neighbours = self._neighbours
            column = {LEFT: neighbours.left, RIGHT: neighbours.right}.get(int(action), neighbours.parent)
            goal = column[self._at]
            crash = f"{ACTIONS[action]} where there is no node" if goal == NOBODY else ""
            self._at = self._at if crash else goal
        return self._observation(), 0.0, bool(crash), False, {"success": False, "crash": crash} if crash else {}

    def render(self) -> Any:
        """The tree with marks and the walker: a line for each node, or a picture."""
        from hvil.domains.treewalk import drawing  # here, for a fast start: it loads Pillow

        if self.render_mode == "ansi":
            return drawing.print_tree(self._neighbours, self._marked, self._at)
        if self.render_mode == "rgb_array":
            return drawing.draw_tree(self._neighbours, self._marked, self._at)
        return None

    def _begin(self, tree: list[int]) -> None:
        self._neighbours = family(tree)
        self._seen = observe(np.array(tree))
        self._marked = [False] * len(tree)
        self._at = 0

    def _observation(self) -> NDArray[np.float32]:
        return np.array(self._seen[self._at])
