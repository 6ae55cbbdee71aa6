"""The gap between ELBO and likelihood of a trained run: the divergence of its posterior from the exact one."""

import json
from pathlib import Path

import numpy as np
import pytest

from hvil.analysis.gap import Gap, elbo_gap, exact_report
from hvil.cli.main import main
from hvil.data.tasks import find_task
from hvil.data.trace_files import save
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact import inference as exact
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.objective import evaluated
from hvil.learners.hvil import HvilLearner
from hvil.training.fit import fit
from hvil.training.run import Run

SIGMAS = 4.5
"""So many standard errors make a false alarm in some trace as unlikely as 1 in 10,000."""


@pytest.fixture(scope="module")
def run() -> Run:
    traces = find_task("karel:D").demonstrations(12, seed=1)
    return fit(traces, "tree:3x2", model="hvil", hidden=24, context=8, updates=80, batch_size=6, learning_rate=5e-3)


@pytest.fixture(scope="module")
def batch(run: Run) -> Traces:
    return run.data.training[:8]


@pytest.fixture(scope="module")
def learner(run: Run) -> HvilLearner:
    assert isinstance(run.learner, HvilLearner)
    return run.learner


@pytest.fixture(scope="module")
def gap(learner: HvilLearner, batch: Traces) -> Gap:
    return elbo_gap(learner, batch, 2000, np.random.default_rng(0))


def test_sampled_elbos_stay_below_the_likelihood(gap: Gap) -> None:
    assert (gap.elbo - SIGMAS * gap.elbo_error <= gap.log_likelihood).all()
    assert (gap.elbo < gap.log_likelihood).mean() > 0.5, "a posterior after 80 updates is not exact"


def test_the_difference_is_the_divergence_from_the_exact_posterior(gap: Gap) -> None:
    difference = gap.log_likelihood - gap.elbo
    error = np.hypot(gap.elbo_error, gap.posterior_kl_error) + 1e-4
    assert (np.abs(difference - gap.posterior_kl) <= SIGMAS * error).all(), (difference, gap.posterior_kl, error)
    assert (gap.posterior_kl + SIGMAS * gap.posterior_kl_error >= 0).all()


def test_the_divergence_equals_that_of_step_by_step_posteriors(gap: Gap, learner: HvilLearner, batch: Traces) -> None:
    """A computation that shares nothing with the likelihood of the whole trace but the span tables."""
    trace, count = batch[0], 300
    table, log_probs = evaluated(learner.policy_network, trace, learner.config)
    steps, terms = learner.terms(trace[np.zeros(count, dtype=int)], np.random.default_rng(5))
    structures = np.split(steps.choice, steps.offsets[1:-1])
    posteriors = exact.step_posterior(table, log_probs, 0, structures)
    ratios = np.array([
        log_q.sum() - posterior[np.arange(len(taken)), taken].sum()
        for log_q, posterior, taken in zip(
            np.split(terms.log_q.double().numpy(), steps.offsets[1:-1]), posteriors, structures, strict=True
        )
    ])  # fmt: skip
    error = np.hypot(ratios.std(ddof=1) / np.sqrt(count), gap.posterior_kl_error[0]) + 1e-4
    assert abs(ratios.mean() - gap.posterior_kl[0]) <= SIGMAS * error


def test_too_few_samples_limits_and_costly_traces_are_refused(learner: HvilLearner, batch: Traces) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="at least 4 samples"):
        elbo_gap(learner, batch, 3, rng)
    with pytest.raises(InputError, match="over all call structures"):
        elbo_gap(learner, batch, 4, rng, Limits(longest_span=3))
    with pytest.raises(InputError, match="would need about"):
        elbo_gap(learner, batch, 4, rng, Limits(seconds=1e-9))


def test_evaluate_exact_reports_the_gap_of_each_trace(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.save(tmp_path / "run")
    save(run.data.training[:3], tmp_path / "some.npz")
    argv = ["evaluate", str(tmp_path / "run"), str(tmp_path / "some.npz"), "--exact", "--samples", "40", "--json"]
    assert main([*argv, "--no-rollouts"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["log_likelihood"] == pytest.approx(np.mean(result["exact"]["log_likelihood"]))
    assert result["elbo"] < result["log_likelihood"] < 0 < result["posterior_kl"]
    assert all(len(result["exact"][name]) == 3 for name in ("log_likelihood", "elbo", "posterior_kl"))
    assert json.loads((tmp_path / "run" / "evaluation-some-exact-no-rollouts.json").read_text()) == result
    assert not (tmp_path / "run" / "evaluation.json").exists(), "an evaluation on other data is written beside"


def test_the_exact_learner_has_no_gap_and_a_baseline_is_refused(batch: Traces) -> None:
    trained = fit(batch, "tree:2x2", model="exact", hidden=8, updates=2)
    report = exact_report(trained.learner, batch, 10, np.random.default_rng(0))
    assert report["posterior_kl"] == 0
    assert report["elbo"] == report["log_likelihood"] < 0
    baseline = fit(batch, "tree:2x2", model="lstm", units=4, updates=0)
    with pytest.raises(InputError, match="needs a run with procedures"):
        exact_report(baseline.learner, batch, 10, np.random.default_rng(0))
