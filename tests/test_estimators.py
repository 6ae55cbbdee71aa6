"""The estimators by themselves: their formulas, and the paper's binary example."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import GRAPHS, enumerated, make_learner, make_traces
from torch import Tensor

import hvil
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.hvil import HvilLearner
from hvil.learners.objective.control_variates import Baseline, no_baseline
from hvil.learners.objective.elbo import Terms, entropy, kl_divergence
from hvil.learners.objective.estimators import ESTIMATORS, analytic_costs, cost_to_come, sampled_log_q
from hvil.machine.callgraph import CallGraph

WEIGHT = 0.3


def random_terms() -> tuple[Terms, Tensor, Tensor]:
    """Terms of three traces with 4, 1 and 3 steps of three choices; the scores that they come from."""
    torch.manual_seed(0)
    scores_q, scores_p = torch.randn(2, 8, 3, requires_grad=True).unbind()
    log_q, log_p = scores_q.log_softmax(1), scores_p.log_softmax(1)
    taken = torch.tensor([0, 1, 2, 0, 1, 1, 2, 0])
    steps = torch.arange(8)
    terms = Terms(
        kl=kl_divergence(log_q, log_p),
        entropy=entropy(log_q),
        log_q=log_q[steps, taken],
        log_p=log_p[steps, taken],
        price=torch.tensor([0.0, 0.3, 0.0, 0.6, 0.0, 0.0, 0.3, 0.6]),
        annotated=torch.tensor([0, 1, 0, 0, 1, 0, 0, 1]).bool(),
        walk=torch.tensor([0, 0, 0, 0, 1, 2, 2, 2]),
        time=torch.tensor([0, 0, 1, 2, 0, 0, 1, 1]),
        offsets=np.array([0, 4, 5, 8]),
        durations=np.array([3, 1, 2]),
    )
    return terms, scores_q, scores_p


def direct(terms: Terms, estimator: str) -> Tensor:
    """The estimator's equation, written out over traces and pairs of steps."""
    total = torch.zeros(())
    for first, end in pairwise(terms.offsets.tolist()):
        steps = range(first, end)
        costs = {}
        for i in steps:
            if terms.annotated[i]:
                costs[i] = -terms.log_p[i] - terms.log_q[i]
            elif estimator == "score":
                costs[i] = terms.log_q[i] - terms.log_p[i] + WEIGHT * terms.log_q[i]
            else:
                costs[i] = terms.kl[i] - WEIGHT * terms.entropy[i]
            costs[i] = costs[i] + terms.price[i]
        for i in steps:
            total = total + costs[i]
            for j in steps:
                if not terms.annotated[j] and (estimator != "rao-blackwell" or j < i):
                    total = total + costs[i].detach() * terms.log_q[j]
    return total


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
def test_each_estimator_is_its_equation(estimator: str) -> None:
    terms, *scores = random_terms()
    got, expected = ESTIMATORS[estimator](terms, WEIGHT, no_baseline), direct(terms, estimator)
    torch.testing.assert_close(got, expected)
    for ours, theirs in zip(
        torch.autograd.grad(got, scores, retain_graph=True), torch.autograd.grad(expected, scores), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_one_trace_does_not_weigh_another() -> None:
    terms, *_ = random_terms()
    alone = Terms(*(values[:4] for values in terms[:-2]), terms.offsets[:2], terms.durations[:1])
    for name in ESTIMATORS.names():
        estimator = ESTIMATORS[name]
        (together,) = torch.autograd.grad(estimator(terms, WEIGHT, no_baseline), terms.log_q, retain_graph=True)
        (single,) = torch.autograd.grad(estimator(alone, WEIGHT, no_baseline), terms.log_q, retain_graph=True)
        torch.testing.assert_close(together[:4], single[:4])


def test_the_entropy_weight_falls_by_steps() -> None:
    learner = make_learner(GRAPHS["tree"], entropy_weight=2.0, entropy_decay=0.5, entropy_decay_interval=10)
    assert [learner.config.model.entropy_weight_at(update) for update in (0, 9, 10, 25)] == [2, 2, 1, 0.5]


EPSILON, PRIOR = 1e-4, 1e-9
"""q(z = 0), and p(z = 0): the posterior is on its way to the correct, deterministic distribution."""


def binary_example(estimator: str) -> tuple[HvilLearner, Traces]:
    """A program with two explanations of the trace `a`: root calls wrong (z = 0) or right (z = 1); p(1, x) = 1/2."""
    graph = CallGraph(("root", "wrong", "right"), ("a", "b"), calls=((1, 2), (), ()), acts=((1,), (0,), (0,)))
    learner = make_learner(graph, estimator=estimator, entropy_weight=0.0)
    a_b_return_wrong_right = {
        "policy_network": [0.0, np.log(0.5), 30.0, np.log(PRIOR), np.log(0.5)],
        "posterior": [0.0, 0.0, 0.0, np.log(EPSILON), np.log(1 - EPSILON)],
    }
    with torch.no_grad():
        for name, scores in a_b_return_wrong_right.items():
            bank = getattr(learner, name).bank
            for weights in (bank.weight1, bank.weight2):
                weights.zero_()
            bank.bias2[:] = torch.tensor(scores)
    return learner, make_traces(graph, [[0]])


def push_on_epsilon(learner: HvilLearner, loss: Tensor) -> float:
    """−dLoss/dε by the chain rule through the score of z = 0: above 0, a descent step makes ε larger."""
    (grad,) = torch.autograd.grad(loss, learner.posterior.bank.bias2)
    return -float(grad[0, 3]) / (EPSILON * (1 - EPSILON))


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
def test_without_analytic_kl_the_gradient_pushes_epsilon_up_and_with_it_down(estimator: str) -> None:
    learner, trace = binary_example(estimator)
    traces, rng = trace[[0] * 200], np.random.default_rng(0)
    assert push_on_epsilon(learner, enumerated(learner, trace, 0).objective) < 0, "less of z = 0 is better"
    steps = learner.infer(traces, np.random.default_rng(0)).steps
    called = steps.choice[steps.counter + steps.procedure == 0]
    assert (called == 4).all(), "no sample of practical size has z = 0"
    push = push_on_epsilon(learner, learner.loss(traces, rng, 0).total)
    if estimator == "score":
        assert push == pytest.approx(1 - np.log(0.5), rel=1e-3), "the paper's 1 − log p(1, x)"
    else:
        assert push < -5


def test_more_samples_do_not_help_without_analytic_kl() -> None:
    """Unbiased it is: the rare z = 0 would make up for all the others, at one in 1/ε samples."""
    learner, trace = binary_example("score")
    exact = push_on_epsilon(learner, enumerated(learner, trace, 0).objective)
    with_none = push_on_epsilon(learner, learner.loss(trace[[0] * 500], np.random.default_rng(0), 0).total)
    once = np.log(EPSILON) - np.log(PRIOR)
    assert exact == pytest.approx((1 - EPSILON) * with_none - EPSILON * (1 + once) / EPSILON, rel=1e-3)


def doubled(terms: Terms, weight: float, baseline: Baseline) -> Tensor:
    """A user's estimator: the default one, twice, from the same parts; it also looks at times and walks."""
    assert terms.time.shape == terms.walk.shape == terms.kl.shape
    costs = analytic_costs(terms, weight)
    return 2 * (costs + cost_to_come(costs.detach(), terms) * sampled_log_q(terms)).sum()


def test_an_estimator_from_outside_trains_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ESTIMATORS, "_registered", {})
    graph = GRAPHS["tree"]
    traces = make_traces(graph, [[0, 1, 0], [1, 1]])
    with pytest.raises(InputError, match="'doubled': no such estimator; expected score, analytic, rao-blackwell"):
        make_learner(graph, estimator="doubled")
    ESTIMATORS.register("doubled", doubled)
    ours, theirs = make_learner(graph), make_learner(graph, estimator="doubled")
    losses = [learner.loss(traces, np.random.default_rng(0), 0).total for learner in (ours, theirs)]
    assert losses[1].item() == pytest.approx(2 * losses[0].item(), rel=1e-5)
    with pytest.raises(InputError, match="cannot be compiled"):
        theirs.loss(traces, np.random.default_rng(0), 0, path="compiled")
    run = hvil.fit(traces, "tree:2x2", out=tmp_path / "run", estimator="doubled", updates=3, hidden=4, context=3)
    assert hvil.load(run.path).config.model.estimator == "doubled"
