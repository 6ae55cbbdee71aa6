"""An experiment as a table: which learners are trained on which tasks with how much data, and what is claimed of them.

The figures of the paper are such tables, one a file, and so are a user's own. `experiment_files` reads them, `sweep`
runs the cells, `verdicts` judges the claims, `figures` draws.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hvil.experiments.engine.cells import Cell, self_contained
from hvil.gate.errors import InputError

if TYPE_CHECKING:
    from hvil.data.tasks import Task

MEASURES = {
    "error": "test traces with an error",
    "error_unseen": "unseen test traces with an error",
    "error_best": "test traces with an error, at the best of the evaluations during training",
}
"""What can be drawn and claimed. The last is read off the curve in each record: the error with the best time to stop,
known only in hindsight, and so a bound for every way of selecting a model."""

KINDS = ("lower", "not-lower", "at-most", "above", "half-data")
AXES = ("demos", "percentile")


@dataclass(frozen=True)
class Claim:
    """Something that an experiment can show. `verdicts` says when it counts as shown."""

    says: str
    """In words; those of the paper where it is one of the paper's."""
    kind: str
    """`lower`: the mean error of `ours` is lower than that of `theirs`; `not-lower`: it is not; `at-most`, `above`: the
    error of `ours` is at most, or above, `level`; `half-data`: `ours` reaches `level` with less than half the data that
    `theirs` needs for it."""
    ours: str
    """A model of the experiment."""
    theirs: str = ""
    """The model that `ours` is compared with."""
    panels: tuple[str, ...] = ()
    """Where; by default everywhere."""
    sizes: tuple[int, ...] = ()
    """At which places of the axis; by default at all."""
    level: float = 0.0
    measure: str = "error"
    pooled: bool = False
    """Judge the mean over the panels; by default each is judged, and the claim holds if it holds in all."""
    some: bool = False
    """The claim is about some of the panels: it holds if it holds in one."""


@dataclass(frozen=True)
class Preset:
    """What differs from the experiment as it stands; None: nothing."""

    runs: int | None = None
    sizes: tuple[int, ...] | None = None
    test_traces: int | None = None
    panels: Mapping[str, str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Added to the settings of all models."""


class Place(NamedTuple):
    """Where in the figure a cell belongs."""

    panel: str
    model: str
    size: int
    run: int


@dataclass(frozen=True)
class Experiment:
    """One figure."""

    name: str
    title: str
    panels: Mapping[str, str]
    """The task of each panel, by the panel's title."""
    models: Mapping[str, Mapping[str, Any]]
    """The settings of each learner, by the name in the legend: fields of `hvil.learners.config.ModelSettings` and
    `TrainingSettings`, and `call_graph`."""
    sizes: tuple[int, ...]
    """Places on the axis: numbers of training traces, or percentiles."""
    runs: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Common to all models."""
    test_traces: int = 100
    axis: str = "demos"
    """What `sizes` are: `demos` or `percentile`."""
    demos: int = 0
    """Training traces, if the axis is a percentile."""
    pool: int = 0
    """See `Cell`."""
    measures: tuple[str, ...] = ("error",)
    """What is drawn and tabulated; a figure for each."""
    claims: tuple[Claim, ...] = ()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    notes: str = ""
    """What a reader of the results should know: choices that are ours."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; that each cell can be run is checked by `sweep`."""
        if not self.panels or not self.models or not self.sizes or self.runs < 1:
            raise InputError(f"experiment {self.name}: needs at least one panel, model, size and run")
        if len(set(self.sizes)) < len(self.sizes):
            raise InputError(f"experiment {self.name}: a size stands there twice")
        if self.axis not in AXES:
            raise InputError(f"experiment {self.name}: axis is {self.axis!r}; expected {' or '.join(AXES)}")
        for measure in (*self.measures, *(claim.measure for claim in self.claims)):
            if measure not in MEASURES:
                raise InputError(f"experiment {self.name}: measure {measure!r}; expected {', '.join(MEASURES)}")
        for claim in self.claims:
            self._check(claim)

    def _check(self, claim: Claim) -> None:
        where = f"experiment {self.name}, claim {claim.says!r}"
        if claim.kind not in KINDS:
            raise InputError(f"{where}: kind {claim.kind!r}; expected one of {', '.join(KINDS)}")
        if claim.pooled and claim.some:
            raise InputError(f"{where}: is it about the mean of the panels (pooled), or about some of them?")
        needs_other = claim.kind in ("lower", "not-lower", "half-data")
        for model in (claim.ours, *([claim.theirs] if needs_other else [])):
            if model not in self.models:
                raise InputError(f"{where}: no model {model!r}")
        if claim.kind == "half-data" and claim.pooled:
            raise InputError(f"{where}: half the data of each panel can be judged, not of their mean")
        for panel in claim.panels:
            if panel not in self.panels:
                raise InputError(f"{where}: no panel {panel!r}")

    def preset(self, name: str) -> "Experiment":
        """The experiment with a preset put in."""
        if name not in self.presets:
            known = ", ".join(self.presets) or "none"
            raise InputError(f"experiment {self.name}: no preset {name!r}; it has {known}")
        chosen = self.presets[name]
        told = {k: v for k in ("runs", "sizes", "test_traces", "panels") if (v := getattr(chosen, k)) is not None}
        return replace(self, settings={**self.settings, **chosen.settings}, presets={}, **told)

    def cells(self) -> dict[Place, Cell]:
        """Every cell, in an order in which all models advance together."""
        from hvil.data.tasks import find_task

        tasks = {panel: find_task(spec) for panel, spec in self.panels.items()}
        settings = {name: self_contained({**self.settings, **model}) for name, model in self.models.items()}
        return {
            Place(panel, model, size, run): self._cell(tasks[panel], settings[model], size, run)
            for run in range(self.runs)
            for size in self.sizes
            for panel in self.panels
            for model in self.models
        }

    def _cell(self, task: "Task", settings: Mapping[str, Any], size: int, run: int) -> Cell:
        demos, percentile = (size, 0) if self.axis == "demos" else (self.demos, size)
        # Under its full name: MNIST's says whether all images are used, which an environment variable may decide.
        return Cell(task.name, demos, run, settings, self.test_traces, self.pool, percentile, task.contents)

    def to_mapping(self) -> dict[str, Any]:
        """The form of `experiment.json`, and of a TOML file."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Experiment":
        """The inverse of `to_mapping`; what is wrong with it is an `InputError` that says where."""
        claims, presets = _taken(value, "claims", list, where), _taken(value, "presets", dict, where)
        made: Experiment = _made(
            Experiment,
            {
                **value,
                "claims": tuple(_made(Claim, claim, f"{where}: claim") for claim in claims),
                "presets": {name: _made(Preset, preset, f"{where}: preset {name}") for name, preset in presets.items()},
            },
            where,
        )
        return made


def _plain(value: Any) -> Any:
    """The value with lists for tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _taken(value: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: not an experiment")
    found = value.get(name, kind())
    if not isinstance(found, kind):
        raise InputError(f"{where}: {name} has the wrong form")
    return found


_FORMS: Mapping[str, tuple[type, type | None]] = {
    # name: what it is, and what its entries are
    **dict.fromkeys(("name", "title", "axis", "notes", "says", "kind", "ours", "theirs", "measure"), (str, None)),
    **dict.fromkeys(("runs", "test_traces", "demos", "pool"), (int, None)),
    **dict.fromkeys(("panels", "settings", "models"), (dict, None)),
    "sizes": (tuple, int),
    "measures": (tuple, str),
    **dict.fromkeys(("pooled", "some"), (bool, None)),
    "level": (float, None),
}


def _made(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected a table")
    entries = {entry.name for entry in fields(kind)}
    chosen = {}
    for name, given in value.items():
        if name not in entries:
            raise InputError(f"{where}: unknown entry {name!r}; known: {', '.join(sorted(entries))}")
        if given is None:
            continue
        chosen[name] = _formed(kind, name, given, where)
    required = [e.name for e in fields(kind) if e.default is MISSING and e.default_factory is MISSING]
    missing = [name for name in required if name not in chosen]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    return kind(**chosen)


def _formed(kind: Any, name: str, given: Any, where: str) -> Any:
    form: Any
    inner: Any
    form, inner = (tuple, str) if kind is Claim and name == "panels" else _FORMS.get(name, (object, None))
    value: Any = tuple(given) if form is tuple and isinstance(given, list | tuple) else given
    value = float(value) if form is float and isinstance(value, int) and not isinstance(value, bool) else value
    wrong = not isinstance(value, form) or (isinstance(value, bool) and form in (int, float))
    if wrong or (inner and not all(isinstance(entry, inner) and not isinstance(entry, bool) for entry in value)):
        raise InputError(
            f"{where}: {name} is {given!r}; expected {form.__name__}{f' of {inner.__name__}' if inner else ''}"
        )
    if name == "models" and not all(isinstance(settings, Mapping) for settings in value.values()):
        raise InputError(f"{where}: each model is a table of settings")
    if kind is Experiment and name == "panels" and not all(isinstance(spec, str) for spec in value.values()):
        raise InputError(f"{where}: each panel is a task, such as karel:F")
    return value
