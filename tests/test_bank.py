"""Banks of networks: gradients against finite differences, and every way to evaluate them alike."""

import numpy as np
import pytest
import torch
from oracle import GRAPHS, WIDTH, as_modules, make_learner
from torch import Tensor
from torch.func import functional_call

from hvil.gate.errors import InputError
from hvil.learners.naive import frame_inputs, log_probs
from hvil.learners.networks.bank import FrameInputs, Frames, MlpBank, ModuleBank, grouped
from hvil.learners.networks.counters import counter_inputs
from hvil.learners.networks.encoders import ConvNetWithNumbers
from hvil.machine.reference import Frame

CHOICES = 4
FRAMES = Frames(np.array([0, 3, 1, 2, 1]), np.array([-1, 2, 0, 3, 1]))
PROCEDURES = np.array([0, 0, 2, 2, 2])
"""Of three procedures the second has no rows."""


def check_gradients(bank: MlpBank | ModuleBank, features: Tensor) -> None:
    bank = bank.double()
    names = [name for name, _ in bank.named_parameters()]
    groups = grouped(PROCEDURES, 3)

    def scores(x: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(bank, dict(zip(names, parameters, strict=True)), (x, FRAMES, groups))

    values = [parameter.detach().clone().requires_grad_() for parameter in bank.parameters()]
    assert torch.autograd.gradcheck(scores, (features.double().requires_grad_(), *values), fast_mode=True)


@pytest.mark.parametrize("counter", ["raw", "raw+hot2", "3/2+step2"])
def test_gradients_of_perceptrons_pass_a_finite_difference_check(counter: str) -> None:
    torch.manual_seed(0)
    frame = FrameInputs(counter=counter_inputs(counter), last=True, choices=CHOICES)
    check_gradients(MlpBank(3, WIDTH, 6, frame), torch.randn(5, WIDTH))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("shape", [(16, 16), (17, 16, 3), (28 * 28 + 10,)])
def test_gradients_of_convnets_pass_a_finite_difference_check(shape: tuple[int, ...], early: bool) -> None:
    torch.manual_seed(0)
    frame = FrameInputs(counter=counter_inputs("raw"), last=True, choices=CHOICES)
    bank = ModuleBank([ConvNetWithNumbers(shape, frame.width, CHOICES, early) for _ in range(3)], frame)
    check_gradients(bank, torch.randn(5, int(np.prod(shape))))


def test_separate_modules_equal_stacked_weights() -> None:
    torch.manual_seed(0)
    bank = MlpBank(3, WIDTH, 6, FrameInputs(counter=counter_inputs("raw+hot2"), last=True, choices=CHOICES))
    features, groups = torch.randn(5, WIDTH), grouped(PROCEDURES, 3)
    torch.testing.assert_close(as_modules(bank)(features, FRAMES, groups), bank(features, FRAMES, groups))


@pytest.mark.parametrize("frame_inputs_", ["both", "counter", "last", "none"])
@pytest.mark.parametrize("counter", ["raw", "raw+hot2", "2/10+step2"])
def test_a_frame_gives_the_inputs_that_the_settings_name(frame_inputs_: str, counter: str) -> None:
    learner = make_learner(GRAPHS["tree"], frame_inputs=frame_inputs_, counter=counter)
    frame = learner.policy_network.bank.frame
    encoded = frame.encode(FRAMES, torch.device("cpu"))
    expected = [frame_inputs(learner, Frame(0, int(c), int(u))) for c, u in zip(*FRAMES, strict=True)]
    np.testing.assert_array_equal(encoded.numpy(), np.array(expected, dtype=np.float32).reshape(5, frame.width))
    if frame_inputs_ == "both" and counter == "raw+hot2":
        np.testing.assert_array_equal(encoded[1], [3, 0, 0, 0, 0, 0, 1, 0, 0], "counters beyond the limit: only raw")


def test_the_policy_takes_rows_in_any_order() -> None:
    graph = GRAPHS["restricted"]
    learner = make_learner(graph)
    procedure, counter, last, depth = (
        np.array(values) for values in zip((2, 1, -1, 2), (0, 0, -1, 1), (2, 0, 4, 4), (1, 3, 0, 3), strict=True)
    )
    observations = torch.randn(4, WIDTH)
    got = learner.policy_network.log_probs(observations, procedure, counter, last, depth)
    possible = learner.policy_network.possible(procedure, counter, depth)
    for i in range(4):
        frame = Frame(int(procedure[i]), int(counter[i]), int(last[i]))
        choices = np.flatnonzero(possible[i]).tolist()
        expected = log_probs(learner.policy_network.bank, learner, observations[i], frame, choices)
        torch.testing.assert_close(got[i, choices], expected[choices])
        assert got[i].exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ("raw", {0: [0], 7: [7]}),
        ("20/10", {0: [0], 5: [0.5], 20: [2], 400: [2]}),
        ("hot2", {0: [1, 0, 0], 2: [0, 0, 1], 3: [0, 0, 0], 99: [0, 0, 0]}),
        ("step2", {0: [0, 0], 1: [1, 0], 2: [1, 1], 99: [1, 1]}),
        ("4/2+hot1+raw", {0: [0, 0, 1, 0], 1: [1, 0.5, 0, 1], 9: [9, 2, 0, 0]}),
    ],
)
def test_a_counter_is_seen_as_its_spec_says(spec: str, at: dict[int, list[float]]) -> None:
    frame = FrameInputs(counter=counter_inputs(spec), last=False, choices=CHOICES)
    for tau, expected in at.items():
        assert frame.encode(Frames(np.array([tau]), np.array([-1])), torch.device("cpu"))[0].tolist() == expected


@pytest.mark.parametrize("spec", ["", "hot", "20/0", "0/3", "step0", "raw,hot2", "hot9999", "99999/1", "−1/2"])
def test_a_counter_that_nobody_can_see_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match=r"expected raw, B/S"):
        counter_inputs(spec)
