"""The loop: what it draws, what it keeps, and that a killed run ends as an undisturbed one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_learner import ToyLearner, toy_traces

import hvil
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.learner import Loss
from hvil.learners.settings import HvilSettings, TrainingSettings
from hvil.training.checkpoints import Checkpoints
from hvil.training.loop import Hooks, allowed_traces, intervals, learning_rate, seeded, train

TRACES = toy_traces()
SETTINGS = TrainingSettings(updates=30, batch_size=5, evaluate_every=10, checkpoint_every=7)
CONFIG = Config.of(TRACES, "chain:1", HvilSettings(hidden=8), SETTINGS)
IDENTITY = {"configuration": "c", "data": "d"}


class Stop(Exception):
    pass


class Recorder:
    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at = stop_at
        self.begun: list[int] = []
        self.ticks: list[int] = []
        self.records: list[dict[str, float]] = []
        self.ended = False

    def begin(self, update: int, updates: int) -> None:
        self.begun.append(update)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        self.ticks.append(update)
        if update == self.stop_at:
            raise Stop

    def record(self, values: Mapping[str, float]) -> None:
        self.records.append(dict(values))

    def end(self) -> None:
        self.ended = True


def learner(poison: int | None = None) -> ToyLearner:
    return seeded(SETTINGS.seed, lambda: ToyLearner(CONFIG, poison))


def weights(module: torch.nn.Module) -> list[np.ndarray]:
    return [value.numpy().copy() for value in module.state_dict().values()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def error(model: ToyLearner) -> dict[str, float]:
    return {"error": float(model.policy().wrong(TRACES).mean())}


def test_training_learns_and_leaves_the_global_random_state_and_threads_alone() -> None:
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    model, recorder = learner(), Recorder()
    outcome = train(
        model, TRACES, replace(SETTINGS, updates=600, learning_rate=0.02), Hooks(evaluate=error, observers=[recorder])
    )
    assert outcome.updates == 600
    assert recorder.records[-1]["error"] < recorder.records[0].get("error", 1.0)
    assert recorder.records[-1]["loss"] < 0.2
    assert recorder.ended
    assert not model.training
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()


def test_batches_are_drawn_without_replacement_within_an_epoch() -> None:
    model = learner()
    train(model, TRACES, replace(SETTINGS, batch_size=4, updates=6))
    owners = {trace.actions.tobytes() for trace in TRACES}
    steps = sum(len(batch) for batch in model.seen[:3])
    assert steps == TRACES.actions.nbytes, "three batches of 4 of 12 traces are one epoch"
    assert model.seen[:3] != model.seen[3:], "the second epoch has another order"
    assert owners


def test_batches_all_have_the_same_size() -> None:
    single = toy_traces(7)
    sizes = []
    model = learner()
    original = model.loss
    model.loss = lambda traces, rng, update: (sizes.append(len(traces)), original(traces, rng, update))[1]  # type: ignore[method-assign]
    train(model, single, replace(SETTINGS, batch_size=3, updates=9))
    train(model, single, replace(SETTINGS, batch_size=100, updates=2))
    assert sizes == [3] * 9 + [7] * 2


def test_the_seed_alone_decides_the_result() -> None:
    results = []
    for seed in (0, 0, 1):
        model = learner()
        train(model, TRACES, replace(SETTINGS, seed=seed))
        results.append(weights(model))
        torch.randn(3)
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("stop_at", [3, 7, 8, 14, 29])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, stop_at: int, average: float) -> None:
    settings = replace(SETTINGS, average=average, clip=0.5, cooldown=12)
    undisturbed, whole = learner(), Recorder()
    train(undisturbed, TRACES, settings, Hooks(evaluate=error, observers=[whole]))

    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    first, second = Recorder(stop_at), Recorder()
    with pytest.raises(Stop):
        train(learner(), TRACES, settings, Hooks(evaluate=error, checkpoints=checkpoints, observers=[first]))
    torch.randn(5)
    resumed = learner()
    train(resumed, TRACES, settings, Hooks(evaluate=error, checkpoints=checkpoints, observers=[second]), resume=True)

    at = second.begun[0]
    assert at == (stop_at - 1) // 7 * 7
    assert same(weights(undisturbed), weights(resumed))
    kept = [record for record in first.records if record["update"] <= at]
    without_time = [
        [{k: v for k, v in r.items() if k != "seconds"} for r in lines]
        for lines in (whole.records, kept + second.records)
    ]
    assert without_time[0] == without_time[1]


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    train(learner(), TRACES, SETTINGS, Hooks(checkpoints=checkpoints))
    assert checkpoints.updates() == [28, 30]
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == ["00000028", "00000030"]


def test_averaged_weights_are_used_at_the_end_and_for_evaluations() -> None:
    seen: list[list[np.ndarray]] = []
    model, plain = learner(), learner()
    train(model, TRACES, replace(SETTINGS, average=0.9), Hooks(evaluate=lambda m: (seen.append(weights(m)), {})[1]))  # type: ignore[arg-type]
    train(plain, TRACES, SETTINGS)
    assert same(seen[-1], weights(model))
    assert not same(weights(plain), weights(model))


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    with pytest.raises(FloatingPointError, match="nan at update 17; the checkpoint of update 14 is kept"):
        train(learner(poison=16), TRACES, SETTINGS, Hooks(checkpoints=checkpoints))
    snapshot = checkpoints.latest()
    assert snapshot is not None
    assert snapshot.update == 14


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    model = learner()

    class Poison(Recorder):
        def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
            if update == 14:
                with torch.no_grad():
                    model.network[0].weight[0, 0] = float("inf")

    with pytest.raises(FloatingPointError, match=r"weights.network.0.weight .* update 14"):
        train(model, TRACES, SETTINGS, Hooks(checkpoints=checkpoints, observers=[Poison()]))
    assert checkpoints.updates() == [7]


def spoil(path: Path, how: str) -> None:
    state, facts = path / "state.safetensors", path / "state.json"
    data = state.read_bytes()
    if how == "truncated":
        state.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        state.write_bytes(b"")
    elif how == "flipped":
        state.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    elif how == "missing":
        state.unlink()
    elif how == "json":
        facts.write_text("{", encoding="utf-8")
    elif how == "facts":
        facts.write_text(json.dumps(json.loads(facts.read_text()) | {"facts": 3}), encoding="utf-8")
    elif how == "nan":
        from safetensors.torch import load, save

        tensors = load(data)
        tensors["weights.network.0.weight"][0, 0] = float("nan")
        state.write_bytes(save(tensors))


@pytest.mark.parametrize("how", ["truncated", "empty", "flipped", "missing", "json", "facts", "nan"])
def test_a_damaged_checkpoint_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path, how: str) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    train(learner(), TRACES, SETTINGS, Hooks(checkpoints=checkpoints))
    spoil(tmp_path / "checkpoint" / "00000030", how)
    with pytest.raises(InputError, match="remove this directory to resume from update 28") as caught:
        train(learner(), TRACES, SETTINGS, Hooks(checkpoints=checkpoints), resume=True)
    assert "\n" not in str(caught.value)
    assert checkpoints.updates() == [28, 30], "nothing is lost"


def test_a_checkpoint_of_another_configuration_or_data_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    train(learner(), TRACES, SETTINGS, Hooks(checkpoints=Checkpoints(directory, IDENTITY)))
    for what in IDENTITY:
        other = Checkpoints(directory, IDENTITY | {what: "x"})
        with pytest.raises(InputError, match=f"made with another {what}"):
            train(learner(), TRACES, SETTINGS, Hooks(checkpoints=other), resume=True)


def test_a_checkpoint_that_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint", IDENTITY)
    train(learner(), TRACES, SETTINGS, Hooks(checkpoints=checkpoints))
    wider = ToyLearner(replace(CONFIG, model=HvilSettings(hidden=9)))
    with pytest.raises(InputError, match="does not fit the model"):
        train(wider, TRACES, SETTINGS, Hooks(checkpoints=checkpoints), resume=True)
    with pytest.raises(InputError, match="not of these 11 traces"):
        train(learner(), TRACES[:11], SETTINGS, Hooks(checkpoints=checkpoints), resume=True)
    with pytest.raises(InputError, match="has 30 updates already"):
        train(learner(), TRACES, replace(SETTINGS, updates=20), Hooks(checkpoints=checkpoints), resume=True)


def test_intervals_default_to_about_ten_evaluations() -> None:
    assert intervals(TrainingSettings(updates=2000)) == (200, 200, 10)
    assert intervals(TrainingSettings(updates=3)) == (1, 1, 1)
    assert intervals(TrainingSettings(updates=100, evaluate_every=7, checkpoint_every=3)) == (7, 3, 1)


@pytest.mark.parametrize(("device", "message"), [("gpu!", "not known"), ("meta", "not supported")])
def test_an_unknown_device_is_refused(device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(learner(), TRACES, replace(SETTINGS, device=device))


def test_a_curriculum_begins_with_the_shortest_traces_and_ends_with_all() -> None:
    assert allowed_traces(0, 40, 5, 100) == 10
    assert allowed_traces(50, 40, 5, 100) == 25
    assert allowed_traces(100, 40, 5, 100) == 40
    assert allowed_traces(0, 12, 5, 100) == 5, "never fewer than a batch"
    lengths = np.sort(TRACES.lengths)
    drawn: list[int] = []

    class Watched(ToyLearner):
        def loss(self, traces, rng, update):  # type: ignore[no-untyped-def]
            drawn.append(int(traces.lengths.max()))
            return super().loss(traces, rng, update)

    train(seeded(0, lambda: Watched(CONFIG)), TRACES, replace(SETTINGS, batch_size=2, updates=40, curriculum=30))
    assert drawn[0] <= lengths[len(lengths) // 4]
    assert max(drawn[30:]) == lengths[-1]


def test_a_run_that_pauses_under_a_curriculum_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings = replace(SETTINGS, batch_size=2, updates=20, curriculum=12)
    whole, paused = learner(), learner()
    train(whole, TRACES, settings)
    checkpoints = Checkpoints(tmp_path, IDENTITY)
    assert train(learner(), TRACES, settings, Hooks(checkpoints=checkpoints), until=7).updates == 7
    train(paused, TRACES, settings, Hooks(checkpoints=checkpoints), resume=True)
    assert same(weights(whole), weights(paused))


def test_while_it_cools_down_the_learning_rate_falls_to_zero() -> None:
    steps: list[float] = []

    class Watched(ToyLearner):
        """Its gradient is always the same, so that Adam moves each weight by the learning rate."""

        def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
            steps.append(float(next(self.parameters()).detach().sum()))
            return Loss(total=torch.stack([parameter.sum() for parameter in self.parameters()]).sum(), metrics={})

    settings = replace(SETTINGS, updates=8, cooldown=4, weight_decay=0.0)
    model = seeded(0, lambda: Watched(CONFIG))
    train(model, TRACES, settings)
    moved = -np.diff([*steps, float(next(model.parameters()).detach().sum())])
    assert moved / moved[0] == pytest.approx([1, 1, 1, 1, 1, 0.75, 0.5, 0.25], rel=1e-2)
    assert [learning_rate(settings, update) for update in (0, 4, 6, 7)] == [1e-3, 1e-3, 5e-4, 2.5e-4]
    assert learning_rate(replace(settings, cooldown=0), 7) == 1e-3


def test_a_run_that_has_cooled_down_is_not_made_longer(tmp_path: Path) -> None:
    small = {"model": "lstm", "units": 8, "updates": 12, "cooldown": 4}
    hvil.fit(TRACES, out=tmp_path / "run", **small)
    with pytest.raises(InputError, match=r"another configuration: updates \(20 and 12\)"):
        hvil.fit(TRACES, out=tmp_path / "run", resume=True, **small | {"updates": 20})


def test_checkpoints_delete_nothing_but_their_own_leftovers(tmp_path: Path) -> None:
    precious = tmp_path / "home" / ".ssh"
    precious.mkdir(parents=True)
    (precious / "id").write_text("secret", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match="is a link"):
        train(learner(), TRACES, SETTINGS, Hooks(checkpoints=Checkpoints(tmp_path / "link", IDENTITY)))
    (tmp_path / "home" / ".00000007.part").mkdir()
    train(learner(), TRACES, SETTINGS, Hooks(checkpoints=Checkpoints(tmp_path / "home", IDENTITY)))
    assert (precious / "id").read_text(encoding="utf-8") == "secret"
    assert not (tmp_path / "home" / ".00000007.part").exists()
