"""An experiment as a table: which learners are trained on which tasks with how much data, and what is claimed of them.

The figures of the paper are such tables, one in each module of `figures`; so are a comparison and a user's own
experiment. `experiment_files` reads them, `engine` runs the cells, `outcome` draws them and judges the claims.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from hvil.experiments.engine.cells import Cell, self_contained
from hvil.experiments.engine.origins import Origin, origin
from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping, setting_names

MEASURES = {
    "error": "test traces with an error",
    "error_unseen": "unseen test traces with an error",
    "error_best": "test traces with an error, at the best of the evaluations during training",
    "training_error": "training traces with an error",
    "rollout_success": "roll-outs that succeed",
}
"""The shares that a record holds. `error_best` comes from the errors during training: it is the error with the best
time to stop, which nobody can know beforehand, and so a bound for every rule that decides when to stop."""

OF_MODEL = ("task_option", "only_sizes")
"""What the table says of a model beside its settings."""

MOST_CELLS = 1_000_000
"""Of an experiment, at most: the paper's largest has some thousands."""

KINDS = ("lower", "not-lower", "at-most", "above", "half-data")


class Axis(NamedTuple):
    """What the sizes of an experiment are, in words."""

    label: str
    """Below a picture."""
    heading: str
    """Above the column of a table."""


AXES = {
    "demos": Axis(label="demonstrations", heading="training traces"),
    "percentile": Axis(label="percentile of the training lengths", heading="percentile"),
}


@dataclass(frozen=True)
class Claim:
    """A statement that an experiment can test. `outcome.verdicts` says when it counts as reproduced."""

    says: str
    """The statement in words; those of the paper where it is one of the paper's."""
    kind: str
    """`lower`: the mean error of `ours` is lower than that of `theirs`; `not-lower`: it is not; `at-most`, `above`: the
    error of `ours` is at most, or above, `level`; `half-data`: `ours` reaches `level` with less than half the data that
    `theirs` needs for it."""
    ours: str
    """A model of the experiment."""
    theirs: str = ""
    """The model that `ours` is compared with."""
    panels: tuple[str, ...] = ()
    """The panels that the claim is about; by default all."""
    sizes: tuple[int, ...] = ()
    """The sizes that the claim is about; by default all."""
    level: float = 0.0
    measure: str = "error"
    margin: float = 0.02
    """A difference of at most so much counts as none: `lower` claims whose interval lies within it are decided."""
    pooled: bool = False
    """The claim is about the mean over the panels. By default each panel is judged, and the claim holds if it holds in
    all of them."""
    some: bool = False
    """The claim is about some of the panels: it holds if it holds in one of them."""


@dataclass(frozen=True)
class Reported:
    """An error that somebody else reports, such as the paper: a star in the picture, beside what was measured."""

    says: str
    """Whose error it is, for the legend."""
    size: int
    error: float
    panel: str = ""
    """By default the first."""


class Position(NamedTuple):
    """Where in the figure a cell belongs."""

    panel: str
    model: str
    size: int
    run: int


class Part(NamedTuple):
    """A part of an experiment, by its panels, models and sizes; an empty entry means all of them."""

    panels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def covers(self, position: Position) -> bool:
        """Whether a position lies in this part."""
        return (
            (not self.panels or position.panel in self.panels)
            and (not self.models or position.model in self.models)
            and (not self.sizes or position.size in self.sizes)
        )


EVERYTHING = Part()
"""All of an experiment."""


@dataclass(frozen=True)
class FewerRuns:
    """A part of an experiment that has fewer runs than the rest, because less depends on it."""

    runs: int
    panels: tuple[str, ...] = ()
    """By default all."""
    models: tuple[str, ...] = ()
    """By default all."""
    sizes: tuple[int, ...] = ()
    """By default all."""

    @property
    def part(self) -> Part:
        """Where these fewer runs are."""
        return Part(panels=self.panels, models=self.models, sizes=self.sizes)


@dataclass(frozen=True)
class Preset:
    """A size of an experiment: what differs from the table as it stands; None: nothing."""

    runs: int | None = None
    fewer_runs: tuple[FewerRuns, ...] | None = None
    first_run: int | None = None
    sizes: tuple[int, ...] | None = None
    test_traces: int | None = None
    validation: int | None = None
    panels: Mapping[str, str] | None = None
    models: Mapping[str, Mapping[str, Any]] | None = None
    claims: tuple[Claim, ...] | None = None
    notes: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings to add to those that all models share."""


@dataclass(frozen=True)
class Experiment:
    """One figure."""

    name: str
    title: str
    panels: Mapping[str, str]
    """The task of each panel, by the panel's title."""
    models: Mapping[str, Mapping[str, Any]]
    """The settings of each learner, by its name in the legend: `model` (the kind of learner), fields of that learner's
    settings and of `TrainingSettings` (both in `hvil.learners.settings`), `call_graph`, and what holds for this model
    alone: `task_option`, which is added to the panel's task, such as the `shuffled` of `mnist-parity:0.7,shuffled`;
    `only_sizes`, some of the experiment's sizes."""
    sizes: tuple[int, ...]
    """The values on the axis: numbers of training traces, or percentiles."""
    runs: int = 3
    fewer_runs: tuple[FewerRuns, ...] = ()
    """Parts that have not all of the runs; where parts overlap, the smallest number holds."""
    first_run: int = 0
    """The number of the first run. Runs are seeds, so others than those on which settings were chosen can be taken."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that all models share."""
    test_traces: int = 100
    axis: str = "demos"
    """What `sizes` are: `demos` or `percentile`."""
    demos: int = 0
    """The number of training traces, if the axis is a percentile."""
    pool: int = 0
    """See `Cell`."""
    validation: int = 0
    """See `Cell`."""
    measures: tuple[str, ...] = ("error",)
    """What is drawn and tabulated; each has a picture of its own."""
    claims: tuple[Claim, ...] = ()
    reported: tuple[Reported, ...] = ()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    notes: str = ""
    """What a reader of the results should know: decisions that are ours, and not the paper's."""

    def __post_init__(self) -> None:
        """Refuse a table that cannot be meant. `sweep` checks each cell later."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.name):
            raise InputError(f"name {self.name[:80]!r} cannot be a file's; use letters, digits, . _ -")
        if not self.panels or not self.models or not self.sizes or self.runs < 1 or self.first_run < 0:
            raise InputError(f"experiment {self.name}: needs at least one panel, model, size and run (from 0)")
        for fewer in self.fewer_runs:
            self._check_fewer(fewer)
        for model in self.models:
            self._check_extent(model)
        if self.runs > MOST_CELLS or self.size > MOST_CELLS:
            raise InputError(f"experiment {self.name}: has more than {MOST_CELLS:,} cells")
        if len(set(self.sizes)) < len(self.sizes):
            raise InputError(f"experiment {self.name}: a size stands there twice")
        if self.axis not in AXES:
            raise InputError(f"experiment {self.name}: axis is {self.axis!r}; expected {' or '.join(AXES)}")
        for measure in (*self.measures, *(claim.measure for claim in self.claims)):
            if measure not in MEASURES:
                raise InputError(f"experiment {self.name}: measure {measure!r}; expected {', '.join(MEASURES)}")
        for claim in self.claims:
            self._check(claim)
        for reported in self.reported:
            if reported.panel and reported.panel not in self.panels:
                raise InputError(f"experiment {self.name}, reported {reported.says!r}: no panel {reported.panel!r}")

    @property
    def size(self) -> int:
        """How many cells it has."""
        return sum(
            self.runs_of(panel, model, size) for panel in self.panels for model in self.models for size in self.sizes
        )

    @property
    def run_numbers(self) -> range:
        """The numbers of its runs."""
        return range(self.first_run, self.first_run + self.runs)

    def runs_of(self, panel: str, model: str, size: int) -> int:
        """How many runs a model has in a panel with one of the sizes."""
        if size not in self.models[model].get("only_sizes", self.sizes):
            return 0
        position = Position(panel=panel, model=model, size=size, run=self.first_run)
        return min([self.runs, *(fewer.runs for fewer in self.fewer_runs if fewer.part.covers(position))])

    def _check_fewer(self, fewer: FewerRuns) -> None:
        self.check_part(fewer.part)
        if fewer.runs < 1:
            raise InputError(f"experiment {self.name}, fewer_runs: {fewer.runs} runs; expected at least one")

    def _check_extent(self, model: str) -> None:
        sizes = self.models[model].get("only_sizes", self.sizes)
        if not isinstance(sizes, list | tuple) or not all(isinstance(size, int) for size in sizes):
            raise InputError(f"experiment {self.name}, model {model}: only_sizes is {sizes!r}; expected a list")

    def _check(self, claim: Claim) -> None:
        where = f"experiment {self.name}, claim {claim.says!r}"
        if claim.kind not in KINDS:
            raise InputError(f"{where}: kind {claim.kind!r}; expected one of {', '.join(KINDS)}")
        if claim.pooled and claim.some:
            raise InputError(f"{where}: is it about the mean of the panels (pooled), or about some of them?")
        compares = claim.kind in ("lower", "not-lower", "half-data")
        for model in (claim.ours, *([claim.theirs] if compares else [])):
            if model not in self.models:
                raise InputError(f"{where}: no model {model!r}")
        for panel in claim.panels:
            if panel not in self.panels:
                raise InputError(f"{where}: no panel {panel!r}")

    def preset(self, name: str) -> "Experiment":
        """The experiment with the size that a preset gives it."""
        if name not in self.presets:
            names = ", ".join(self.presets) or "none"
            raise InputError(f"experiment {self.name}: no preset {name!r}; it has {names}")
        preset = self.presets[name]
        changes = {
            entry: value
            for entry in setting_names(Preset) - {"settings"}
            if (value := getattr(preset, entry)) is not None
        }
        return replace(self, settings={**self.settings, **preset.settings}, presets={}, **changes)

    def cells(self) -> dict[Position, Cell]:
        """Every cell by its position. All models advance together in their order."""
        settings = {
            name: self_contained({**self.settings, **_without(model, OF_MODEL)}) for name, model in self.models.items()
        }
        options = {name: model.get("task_option") for name, model in self.models.items()}
        origins = {
            (panel, option): origin(name if option is None else f"{name},{option}")
            for panel, name in self.panels.items()
            for option in set(options.values())
        }
        return {
            Position(panel=panel, model=model, size=size, run=run): self._cell(
                origins[panel, options[model]], settings[model], size, run
            )
            for number, run in enumerate(self.run_numbers)
            for size in self.sizes
            for panel in self.panels
            for model in self.models
            if number < self.runs_of(panel, model, size)
        }

    def _cell(self, source: Origin, settings: Mapping[str, Any], size: int, run: int) -> Cell:
        demos, percentile = (size, 0) if self.axis == "demos" else (self.demos, size)
        source.check(demos)
        return Cell(
            task=source.name,
            demos=demos,
            run=run,
            settings=settings,
            test_traces=self.test_traces,
            pool=self.pool,
            percentile=percentile,
            contents=source.contents,
            validation=self.validation,
        )

    def check_part(self, part: Part) -> None:
        """Refuse a part that names what the experiment does not have."""
        for kind, chosen in part._asdict().items():
            there: Collection[Any] = getattr(self, kind)
            for name in chosen:
                if name not in there:
                    raise InputError(
                        f"experiment {self.name} has no {name!r} among its {kind}: {', '.join(map(str, there))}"
                    )

    def to_mapping(self) -> dict[str, Any]:
        """The form of `experiment.json`, and of a TOML file."""
        return {name: _with_lists(value) for name, value in asdict(self).items()}

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Experiment":
        """The inverse of `to_mapping`; what is wrong with the value is an `InputError` that says where."""
        return from_mapping(Experiment, value, where, noun="entry")


def _without(settings: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _with_lists(value: Any) -> Any:
    """The value with lists for tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _with_lists(entry) for key, entry in value.items()}
    return [_with_lists(entry) for entry in value] if isinstance(value, list | tuple) else value
