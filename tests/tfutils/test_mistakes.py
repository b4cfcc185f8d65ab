"""Mistakes in calls of tfutils: each raises an error that says what is wrong, before anything is built."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected
from tensorpack_lite.tfutils.argscope import (
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
)
from tensorpack_lite.tfutils.collection import backup_collection
from tensorpack_lite.tfutils.common import get_global_step_value, gpu_available_in_session
from tensorpack_lite.tfutils.gradproc import GlobalNormClip, GradientProcessor, MapGradient, ScaleGradient
from tensorpack_lite.tfutils.lamb import LAMBOptimizer
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer
from tensorpack_lite.tfutils.optimizer import (
    AccumGradOptimizer,
    PostProcessOptimizer,
    ProxyOptimizer,
    accumulate_gradients,
    apply_grad_processors,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from tensorpack_lite.tfutils.precision import precision_scope, with_precision
from tensorpack_lite.tfutils.random import make_exact
from tensorpack_lite.tfutils.recompute import recompute_grad
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, SessionCreatorAdapter
from tensorpack_lite.tfutils.sessinit import ChainInit, DictRestore, SaverRestore, SmartInit
from tensorpack_lite.tfutils.summary import (
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
    create_image_summary,
)
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TowerContext, TrainTowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc
from tensorpack_lite.tfutils.varmanip import (
    SessionUpdate,
    dump_session_params,
    get_checkpoint_path,
    load_checkpoint_vars,
    save_checkpoint_vars,
)

NAN = float("nan")
SGD = tf.train.GradientDescentOptimizer(1.0)
SCALE = ScaleGradient((".*", 3.0))
SCALAR = TensorSpec([], tf.float32, "a")


def plain(x):
    """A function that does not support argscope."""


def enter(context):
    with context:
        pass


def accumulate(grad, variable):
    """Apply a gradient to a variable by accumulation."""
    return AccumGradOptimizer(SGD, 1).apply_gradients([(grad, variable)])


def one():
    return tf.constant(1.0)


def var():
    return tf.get_variable("x", initializer=0.0)


MISTAKES = [
    (lambda: enter(argscope("Conv2D")), TypeError, "expected a layer or a list of layers, got str"),
    (lambda: enter(argscope(plain, size=3)), ValueError, "'plain' does not support argscope"),
    (lambda: enter(argscope(Conv2D, activaton=1)), TypeError, "argscope of Conv2D: .*Did you mean 'activation'"),
    (lambda: enter(argscope([FullyConnected, BatchNorm], a=1)), TypeError, "no argument 'a'"),
    (lambda: enable_argscope_for_function(3), TypeError, "expected a function, got int"),
    (lambda: enable_argscope_for_module({}), TypeError, "expected a module, got dict"),
    (lambda: backup_collection("a"), TypeError, r"got the string 'a'. Write \['a'\]"),
    (get_global_step_value, RuntimeError, "no default session"),
    (gpu_available_in_session, RuntimeError, "no default session"),
    (lambda: dump_session_params("m.npz"), RuntimeError, "no default session"),
    (GradientProcessor, TypeError, "abstract"),
    (lambda: GlobalNormClip(0), ValueError, r"GlobalNormClip: global_norm .*\(expected more than 0, got 0\)"),
    (lambda: GlobalNormClip(-1.0), ValueError, r"expected more than 0, got -1.0\)"),
    (lambda: GlobalNormClip(NAN), ValueError, r"expected more than 0, got nan\)"),
    (lambda: MapGradient(lambda a, b, c: a), TypeError, r"expected func\(grad\) or .*, got 3 arguments"),
    (lambda: ScaleGradient("fc"), TypeError, r"expected a pair \(regex, factor\) or a list of them"),
    (lambda: ScaleGradient([("fc", 1.0), "x"]), TypeError, r"expected a pair \(regex, factor\) or a list"),
    (lambda: ScaleGradient(("a", "b", "c")), TypeError, r"expected a pair \(regex, factor\) or a list of them"),
    (lambda: ScaleGradient(("a", 1.0), ("b", 2.0)), TypeError, "got tuple.. Put several pairs into one list"),
    (lambda: DynamicLossScaleOptimizer(SGD, 0.5), ValueError, r"initial_scale .*\(expected at least 1, got 0\.5"),
    (lambda: DynamicLossScaleOptimizer(SGD).apply_gradients([]), ValueError, "call its compute_gradients before"),
    (lambda: DynamicLossScaleOptimizer("sgd"), TypeError, r"expected a tf.train.Optimizer, got str"),
    (lambda: ProxyOptimizer(object()), TypeError, r"expected a tf\.train\.Optimizer, got object"),
    (lambda: apply_grad_processors(SGD, SCALE), TypeError, "gradprocs .*list or tuple, got ScaleGradient"),
    (lambda: apply_grad_processors(SGD, [plain]), TypeError, "item of gradprocs .*GradientProcessor, got"),
    (lambda: PostProcessOptimizer(SGD, lambda v: one()).minimize(var() * 1), TypeError, "result of func: .*Tensor"),
    (lambda: AccumGradOptimizer(SGD, 0), ValueError, "AccumGradOptimizer: .*niter"),
    (lambda: AccumGradOptimizer(SGD, -1), ValueError, "AccumGradOptimizer: .*niter"),
    (lambda: AccumGradOptimizer(SGD, 1.5), TypeError, "AccumGradOptimizer: .*niter"),
    (lambda: AccumGradOptimizer(SGD, True), TypeError, "AccumGradOptimizer: .*niter"),
    (lambda: accumulate(1.0, var()), TypeError, "a gradient: expected a tensor or"),
    (lambda: accumulate(one(), one()), TypeError, "expected a variable for each gradient"),
    (lambda: accumulate(None, var()), ValueError, "no variable has a gradient"),
    (lambda: LAMBOptimizer(weight_decay=-1), ValueError, "LAMBOptimizer: weight_decay"),
    (lambda: LAMBOptimizer(beta1=1.0), ValueError, "LAMBOptimizer: beta1"),
    (lambda: LAMBOptimizer(epsilon=0), ValueError, "LAMBOptimizer: epsilon"),
    (lambda: clip_by_global_norm(SGD, 0), ValueError, "global_norm"),
    (lambda: clip_by_norm(SGD, -1), ValueError, "clip_by_norm: norm"),
    (lambda: clip_by_value(SGD, 0), ValueError, "clip_by_value: limit"),
    (lambda: accumulate_gradients(SGD, 0), ValueError, "accumulate_gradients: steps"),
    (lambda: enter(precision_scope("float16")), ValueError, "expected 'float32', 'mixed_float16' or"),
    (lambda: with_precision("float16", None, None), ValueError, "expected 'float32', 'mixed_float16' or"),
    (lambda: make_exact("7"), TypeError, "make_exact: entropy has the wrong type .expected int, got str"),
    (lambda: make_exact(7, rank=-1), ValueError, "make_exact: rank is too small .expected at least 0, got -1"),
    (recompute_grad(one), ValueError, r"recompute_grad: 'one' has no tensor .* Pass the inputs of the block"),
    (lambda: NewSessionCreator(config={}), TypeError, "config .*expected a tf.ConfigProto, got dict"),
    (lambda: SessionCreatorAdapter(3, plain), TypeError, "expected SessionCreator, got int"),
    (lambda: DictRestore("a.npz"), TypeError, "DictRestore: .*expected a dictionary .*, got str"),
    (lambda: ChainInit(["model-10"]), TypeError, "ChainInit: .*expected SessionInit, got str"),
    (lambda: SaverRestore("/no/model-9"), FileNotFoundError, "There is no checkpoint .*model-9"),
    (lambda: SmartInit(3), ValueError, r"SmartInit: cannot load 3 \(expected a path, .* got int\)"),
    (lambda: SmartInit("/no/such"), ValueError, "SmartInit: there is no file .*such"),
    (lambda: SmartInit("/no/m.npz"), FileNotFoundError, r"no parameter file .*m\.npz"),
    (lambda: load_checkpoint_vars("/no/m.npz"), FileNotFoundError, r"no parameter file .*m\.npz"),
    (lambda: save_checkpoint_vars({"w": 1.0}, "m.npy"), ValueError, r"cannot write .*\.npy. Use the suffix .npz"),
    (lambda: save_checkpoint_vars({"w": 1.0, "w:0": 2.0}, "m"), ValueError, "two names mean the same variable"),
    (lambda: save_checkpoint_vars({}, "m"), ValueError, "nothing to save"),
    (lambda: get_checkpoint_path("/no/thing"), FileNotFoundError, "no checkpoint .*Check the path; the current"),
    (lambda: get_checkpoint_path("/no/checkpoint"), FileNotFoundError, "no file .*/checkpoint, which names the"),
    (lambda: SessionUpdate(None, []).update({"x:0": 1.0}), KeyError, "no variable to update is named x:0"),
    (lambda: add_moving_summary(1.0), TypeError, "add_moving_summary: expected a tensor, got float"),
    (lambda: add_moving_summary(one(), decay=1.0), ValueError, r"decay .*\(expected 0 <= x < 1, got 1.0\)"),
    (lambda: add_moving_summary(one(), decay=-0.1), ValueError, r"decay .*\(expected 0 <= x < 1, got -0.1\)"),
    (lambda: add_moving_summary(one(), decays=0.9), TypeError, "argument .decays"),
    (lambda: add_tensor_summary(one(), ["max"]), ValueError, "a type is unknown .*expected 'scalar', .* got 'max'"),
    (lambda: add_param_summary([".*/W"]), TypeError, "expected pairs"),
    (lambda: create_image_summary("im", np.zeros([4, 4, 3])), ValueError, r"'im' .*\[N, H, W, C\], got \(4, 4, 3"),
    (lambda: TowerContext("", is_training=False, vs_name="v"), ValueError, "scope 'v' was given without a name"),
    (lambda: TrainTowerContext("t", index=1, total=1), ValueError, "expected 0 <= index < total"),
    (lambda: TrainTowerContext("t", index=-1, total=1), ValueError, "expected 0 <= index < total"),
    (lambda: PredictTowerContext("p").get_collection_in_tower("c"), RuntimeError, "before the tower was entered"),
    (lambda: TowerFunc(3, [SCALAR]), TypeError, "expected a function that builds the model, got int"),
    (lambda: TowerFunc(plain), ValueError, "input_signature is missing"),
    (lambda: TowerFunc(plain, [SCALAR, SCALAR]), ValueError, "appear twice: a"),
    (lambda: TowerFunc(plain, [SCALAR])(1), RuntimeError, "called outside of a TowerContext"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_a_mistake(call, error, message):
    """The error has the type for this mistake, and its message says what was expected."""
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", [None, "", "a/b", "a:0", "a b"])
def test_names_of_inputs(name):
    """Names that a placeholder cannot have raise a ValueError."""
    with pytest.raises(ValueError, match="expected a name without"):
        TowerFunc(plain, [TensorSpec([], tf.float32, name)])
