"""Exact resume of a trainer: its beginning, and the log lines before the first step."""

from __future__ import annotations

from ...callbacks.directories import find_checkpoint_dir
from ...callbacks.saver import ModelSaver
from ...compat import ensure_graph_mode
from ...compat import tfv1 as tf
from ...dataflow.exact.stage_position import ResumeReport
from ...loop.callback import Callback
from ...loop.group import innermost
from ...loop.trainer import LoopTrainer, find_step_ops, session_config
from ...tfutils.exact.lost import find_lost_state
from ...tfutils.exact.state import ExactResume, begin_exact
from ...tfutils.not_repeatable import find_not_repeatable
from ...tfutils.operation_threads import threads_in
from ...tfutils.random import determinism_switches, find_stateful_random_ops
from ...tfutils.sessinit import SaverRestore, SessionInit
from ...tfutils.xla import is_compiled_later
from ...utils import logger
from ...utils.naming import list_names

_PACKAGE = __name__.split(".")[0]
_DOCS = "docs/reproducibility.md"


def begin_exact_resume(
    session_init: SessionInit | None = None, mode: bool | str = True, trainer: LoopTrainer | None = None
) -> None:
    """
    Resume the training in the default graph exactly.

    The data, the random numbers and the callbacks continue as if training had not ended.
    `launch_train_with_config` calls this function for `AutoResumeTrainConfig(exact=True)`. A script that
    calls `train_with_defaults` calls it before it sets up inputs and builds the graph.

    Args:
        session_init: the checkpoint, from an AutoResumeTrainConfig; None, or one without a state, starts from the beginning.
        mode: True, or "require" to raise an error for whatever cannot be resumed exactly.
        trainer: the trainer; needed only if it trains in several processes.

    Raises:
        ValueError: `mode` has another value.
        RuntimeError: it was called before in this graph; or `mode` is "require" and the checkpoint has no positions.
        RankError: another process failed.

    Example:
        >>> found = AutoResumeTrainConfig(steps_per_epoch=500)  # doctest: +SKIP
        >>> begin_exact_resume(found.session_init)  # doctest: +SKIP
        >>> GANTrainer(QueueInput(df), Model()).train_with_defaults(  # doctest: +SKIP
        ...     session_init=found.session_init, starting_epoch=found.starting_epoch, steps_per_epoch=500)
    """
    ensure_graph_mode()
    state = None if session_init is None else session_init.checkpoint_state
    # without a trainer, this process trains alone
    part, not_exact = (state, "") if trainer is None else trainer.state_to_resume(state)
    exact = begin_exact(mode, (part or {}).get("exact"), 0 if trainer is None else trainer.rank)
    if not_exact:
        exact.warn_or_raise(not_exact)
    is_chief = trainer is None or trainer.is_chief
    if is_chief and state is not None and "exact" not in state:
        name = getattr(session_init, "path", "The checkpoint")
        exact.warn_or_raise(
            f"{name} has no positions of the data: it was saved without exact. The data starts from the beginning."
        )


def say_what_is_exact(
    exact: ExactResume, trainer: LoopTrainer, callbacks: list[Callback], other_reason: str = ""
) -> None:
    """
    Log which parts of a training are resumed exactly, in at most three lines.

    Args:
        exact: the state of the training.
        trainer: the trainer.
        callbacks: all callbacks.
        other_reason: why the training is not exact besides; "" if it is.

    Raises:
        RuntimeError: a part is not exact, and exactness is required.
    """
    reports = [report for source in exact.sources.values() for report in source.resume_report()]
    not_exact = _sentences([report for report in reports if report.level == "none"])
    step_ops = find_step_ops(trainer)
    names = find_stateful_random_ops(step_ops)
    if names:
        not_exact.append(
            f"{len(names)} random operations that are not the library's: {list_names(names)} ({_DOCS}#random)"
        )
    lost = find_lost_state(step_ops, exact.tables.names if exact.tables else ())
    if lost:
        not_exact.append(f"{len(lost)} operations whose state no checkpoint has: {list_names(lost)} ({_DOCS}#state)")
    unsaved = _unsaved_variables(callbacks)
    if unsaved:
        not_exact.append(
            f"{len(unsaved)} variables that ModelSaver does not save: {list_names(unsaved)} (var_collections, or created by a callback "
            "behind ModelSaver)"
        )
    missing = _missing_variables(trainer) if exact.is_resumed else []
    if missing:
        not_exact.append(f"{len(missing)} variables that the checkpoint does not have: {list_names(missing)}")
    shapeless = _inputs_without_shape(trainer)
    if shapeless and is_compiled_later(tf.get_default_graph(), session_config(trainer)):
        not_exact.append(f"XLA with inputs of unknown shape: {list_names(shapeless)} ({_DOCS}#xla)")
    not_exact += _results_that_differ(trainer)
    not_exact += [reason for reason in (trainer.not_repeatable, other_reason) if reason]
    replayed = [report.stage for report in reports if report.level == "replay"]
    if not_exact:
        exact.warn_or_raise(f"Exact resume: NOT exact: {'; '.join(not_exact)}.")
    else:
        again = f"the open pass of {list_names(replayed)} is" if replayed else "at most 1 s of it is"
        switches = determinism_switches()
        kernels = f" (with {', '.join(switches)})" if switches else ""
        logger.info(f"Exact resume: data exact, {again} replayed. Graph exact{kernels}. Callbacks exact.")
    assumed = [f"DataFlow {stage}" for stage in replayed]
    assumed += [f"callback {name}" for name in _without_state(callbacks)]
    notes = _sentences([report for report in reports if report.level == "state" and report.reason])
    if assumed:
        notes.insert(0, f"assumed to have no state: {list_names(assumed)}")
    if notes:
        logger.info(f"Exact resume: {'; '.join(notes)}.")


def _results_that_differ(trainer: LoopTrainer) -> list[str]:
    """Return a clause for each cause for which operations may compute other results in each run."""
    found = find_not_repeatable(find_step_ops(trainer), threads_in(session_config(trainer)))
    reasons = dict.fromkeys(operation.reason for operation in found)
    return [
        f"{list_names([operation.name for operation in found if operation.reason == reason])}: {reason} ({_DOCS}#cpu-threads)"
        for reason in reasons
    ]


def _unsaved_variables(callbacks: list[Callback]) -> list[str]:
    """Return the global variables that a ModelSaver of the directory from which training resumes does not save."""
    savers = [cb for cb in map(innermost, callbacks) if isinstance(cb, ModelSaver)]
    directory = find_checkpoint_dir(None)
    saved = [set(map(id, cb.variables)) for cb in savers if cb.checkpoint_dir == directory and cb.variables]
    return [var.op.name for var in tf.global_variables() if any(id(var) not in ids for ids in saved)]


def _missing_variables(trainer: LoopTrainer) -> list[str]:
    """Return the global variables that this process did not find in the checkpoint."""
    init = None if trainer.arguments is None else trainer.arguments.session_init
    return init.missing if isinstance(init, SaverRestore) else []


def _inputs_without_shape(trainer: LoopTrainer) -> list[str]:
    """Return the names of the inputs of the model whose shape may differ from batch to batch."""
    function = getattr(trainer, "tower_func", None)
    specs = [] if function is None else function.input_signature
    return [spec.name for spec in specs if not tf.TensorShape(spec.shape).is_fully_defined()]


def _without_state(callbacks: list[Callback]) -> list[str]:
    """Return the user's callbacks that save nothing besides what a class of the library saves."""
    users = [(type(cb).__name__, _user_classes(cb)) for cb in map(innermost, callbacks)]
    return sorted({name for name, classes in users if classes and not any(map(_saves, classes))})


def _user_classes(callback: Callback) -> list[type]:
    classes = [kind for kind in type(callback).__mro__ if issubclass(kind, Callback)]
    return [kind for kind in classes if kind.__module__.split(".")[0] != _PACKAGE]


def _saves(kind: type) -> bool:
    return "state_dict" in kind.__dict__


def _sentences(reports: list[ResumeReport]) -> list[str]:
    return list(dict.fromkeys(f"{report.stage} ({report.reason})" for report in reports))
