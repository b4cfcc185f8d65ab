"""The choice between the current and the old interface of a class, for scripts started by `tensorpack-lite run`."""

from __future__ import annotations

import copyreg
import functools
from typing import Any, Iterable

from ..compat import tfv1 as tf
from ..graph_builder.model_desc import ModelDescBase
from ..input_source import enqueue
from ..input_source import queueing as today_queueing
from ..train import config as today_config
from ..train import multi_gpu, simple, trainer
from . import config, model, queueing, trainers

_TRAINERS: dict[type, type] = {
    trainer.Trainer: trainers.Trainer,
    simple.SimpleTrainer: trainers.SimpleTrainer,
    simple.NoOpTrainer: trainers.NoOpTrainer,
    simple.QueueInputTrainer: trainers.QueueInputTrainer,
    multi_gpu.SyncMultiGPUTrainerParameterServer: trainers.SyncMultiGPUTrainerParameterServer,
    multi_gpu.SyncMultiGPUTrainerReplicated: trainers.SyncMultiGPUTrainerReplicated,
    multi_gpu.AsyncMultiGPUTrainer: trainers.AsyncMultiGPUTrainer,
}
_CONFIGS: dict[type, type] = {
    today_config.TrainConfig: config.TrainConfig,
    today_config.AutoResumeTrainConfig: config.AutoResumeTrainConfig,
}
_INPUTS: dict[type, type] = {today_queueing.QueueInput: queueing.QueueInput}


def old_class(cls: type, arguments: Iterable[object]) -> type:
    """
    Return the class to instantiate in place of a class of the library or of a script.

    - A trainer that gets a TrainConfig is one of `trainv1`. A script's own trainer also needs `_setup`, or a base class
      that is a complete trainer.
    - A QueueInput has the attributes that subclasses in scripts use, and an EnqueueThread accepts their arguments.
    - All models and configs have the interface of `trainv1`, which contains the current one.

    Args:
        cls: the class that the script calls.
        arguments: the arguments of the call.

    Returns:
        A class of `trainv1`; for a class of a script, a subclass of it and of that class; or `cls` itself.
    """
    if issubclass(cls, ModelDescBase):
        if issubclass(cls, model.AnyGeneration):
            return cls
        if issubclass(model.ModelDesc, cls):  # the script creates a model of the library's class itself
            return _with_bases((model.AnyGeneration, model.ModelDesc), named_after=1)
        return _with_bases((model.AnyGeneration, cls, model.ModelDesc), named_after=1)
    if issubclass(cls, today_config.TrainConfig):
        return _combined(cls, _CONFIGS, config.TrainConfig)
    if issubclass(cls, today_queueing.QueueInput):
        return _combined(cls, _INPUTS, queueing.QueueInput)
    if issubclass(cls, enqueue.EnqueueThread):
        is_old = any(isinstance(argument, tf.QueueBase) for argument in arguments)
        return queueing.EnqueueThread if is_old and cls is enqueue.EnqueueThread else cls
    has_config = any(isinstance(argument, today_config.TrainConfig) for argument in arguments)
    trains_alone = hasattr(cls, "_setup") or _counterpart(cls, _TRAINERS) is not trainers.Trainer
    return _combined(cls, _TRAINERS, trainers.Trainer) if has_config and trains_alone else cls


def _combined(cls: type, counterparts: dict[type, type], old_base: type) -> type:
    if issubclass(cls, old_base):
        return cls
    old = _counterpart(cls, counterparts)
    return old if cls in counterparts else _with_bases((cls, old))


def _counterpart(cls: type, counterparts: dict[type, type]) -> type:
    return next(counterparts[base] for base in cls.__mro__ if base in counterparts)


@functools.lru_cache(maxsize=None)
def _with_bases(bases: tuple[Any, ...], named_after: int = 0) -> type:
    """
    Return a class with these bases and the name of one of them, the class of the script. The same bases yield
    the same class.

    Its objects are pickled as objects of the script's class, because pickles find classes by name.
    """
    script = bases[named_after]

    def named(one: object) -> object:
        default_new = copyreg.__newobj__  # type: ignore[attr-defined]
        return script if one is Made else _new if one is default_new else one

    class Made(*bases):  # type: ignore[misc]
        __module__, __doc__ = script.__module__, script.__doc__

        def __reduce_ex__(self, protocol: Any) -> Any:
            make, arguments, *state = super().__reduce_ex__(max(protocol, 2))
            return (named(make), tuple(map(named, arguments)), *state)

    made: Any = functools.update_wrapper(Made, script, ("__name__", "__qualname__"), ())
    return made


def _new(cls: Any, *arguments: object) -> Any:
    """`copyreg.__newobj__`, which accepts only the class of the pickled object."""
    return cls.__new__(cls, *arguments)
