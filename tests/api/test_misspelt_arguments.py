"""A misspelt argument of a public class gets an error that names the right one, and signatures stay readable."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite
from tensorpack_lite import logger
from tensorpack_lite.callbacks import EarlyStopping, ModelSaver
from tensorpack_lite.dataflow import BatchData, FakeData
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig


def takes_named_arguments(cls):
    """Return whether a constructor has arguments, and no `**kwargs`."""
    if not inspect.isclass(cls) or issubclass(cls, BaseException) or inspect.isabstract(cls):
        return False
    kinds = [p.kind for p in inspect.signature(cls).parameters.values()]
    return bool(kinds) and inspect.Parameter.VAR_KEYWORD not in kinds


CLASSES = [
    name for name in sorted(tensorpack_lite.__all__) if takes_named_arguments(getattr(tensorpack_lite, name))
]


def test_there_are_many():
    """The table below covers the constructors that scripts use."""
    assert {"ModelSaver", "TrainConfig", "BatchData", "QueueInput", "PredictConfig"} <= set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_the_argument_is_named(name):
    """The error names the class, the argument, and those that exist."""
    cls = getattr(tensorpack_lite, name)
    first = next(iter(inspect.signature(cls).parameters))
    with pytest.raises(TypeError, match=rf": there is no argument '{first}x'. Did you mean '{first}'"):
        cls(**{f"{first}x": 1})


def functions():
    """Return the names of the functions of the facade and its modules, layers left out, that have a named argument."""
    modules = {"": tensorpack_lite}
    facade = {name: getattr(tensorpack_lite, name) for name in tensorpack_lite.__all__}
    modules.update(
        {
            f"{name}.": one
            for name, one in facade.items()
            if inspect.ismodule(one) and one is not tensorpack_lite.tfv1
        }
    )
    for prefix, module in sorted(modules.items()):
        for name in sorted(module.__all__):
            function = getattr(module, name)
            if (
                inspect.isfunction(function)
                and not hasattr(function, "use_scope")
                and function is not argscope
            ):
                kinds = {one.kind for one in inspect.signature(function).parameters.values()}
                if kinds & {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}:
                    yield f"{prefix}{name}", function


@pytest.mark.parametrize(("name", "function"), [pytest.param(*one, id=one[0]) for one in functions()])
def test_the_argument_of_a_function_is_named(name, function):
    """A misspelt argument of a function gets the same error."""
    last = [
        one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD
    ][-1]
    cure = f"Did you mean '{last.name}'" if len(last.name) > 1 else "Its arguments are"
    with pytest.raises(TypeError, match=rf": there is no argument '{last.name}x'. {cure}"):
        function(**{f"{last.name}x": 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelSaver(max_to_keeep=3), "ModelSaver: there is no argument 'max_to_keeep'. Did you mean 'max_to_keep'?"),
        (lambda: BatchData(FakeData([[1]]), batchsize=3), "BatchData: there is no argument 'batchsize'. Did you mean 'batch_size'?"),
        (lambda: logger.set_logger_dir("x", acton="k"), "set_logger_dir: there is no argument 'acton'. Did you mean 'action'?"),
        (lambda: tensorpack_lite.launch_train_with_config(None, traner=3), "launch_train_with_config: there is no argument 'traner'. Did you mean 'trainer'?"),
        (lambda: tensorpack_lite.get_model_loader(filname="x"), "SmartInit: there is no argument 'filname'. Its arguments are: obj, ignore_mismatch, checkpoint."),
        (lambda: TrainConfig(max_epochs=3), "TrainConfig: there is no argument 'max_epochs'. Did you mean 'max_epoch'?"),
        (lambda: AutoResumeTrainConfig(max_epochs=3), "TrainConfig: there is no argument 'max_epochs'. Did you mean 'max_epoch'?"),
    ],
)  # fmt: skip
def test_what_people_write(make, message):
    """The sentence is one line, and Python's own error is not shown."""
    with pytest.raises(TypeError) as error:
        make()
    assert message == str(error.value)
    assert error.value.__suppress_context__


def test_signatures():
    """`inspect.signature`, which `help` and editors show, has the arguments of the constructor."""
    assert ["monitor_stat", "mode"] == list(inspect.signature(EarlyStopping).parameters)[:2]
    assert "max_to_keep" in inspect.signature(ModelSaver.__init__).parameters


def test_classes_of_users_are_left_alone():
    """The constructor of a user's class is the function that the user wrote."""

    class Mine(Callback):
        def __init__(self, value):
            self.value = value

    assert not hasattr(Mine.__init__, "__wrapped__")
    assert 3 == Mine(3).value
