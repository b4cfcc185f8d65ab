"""Variables with a partitioner are saved and loaded as `tf.train.Saver` does it, also with another number of parts."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.ema import EMAWeights
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.cli.main import main
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.predict.base import OfflinePredictor
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.tfutils.accumulation import AccumGradOptimizer
from tensorpack_lite.tfutils.sessinit import DictRestore, SaverRestore, SaverRestoreRelaxed, SmartInit
from tensorpack_lite.tfutils.varmanip import (
    SessionUpdate,
    dump_session_params,
    load_checkpoint_vars,
    save_checkpoint_vars,
)
from tensorpack_lite.train import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.utils import logger

VALUES = np.arange(14, dtype="float32").reshape(7, 2)


def embedding(parts, dtype=tf.float32, scope="m"):
    """Return a variable [7, 2] in parts; 0 means a variable without a partitioner."""
    partitioner = tf.fixed_size_partitioner(parts) if parts else None
    with tf.variable_scope(scope):
        return tf.get_variable("emb", [7, 2], dtype, tf.zeros_initializer(), partitioner=partitioner)


def value_after(init, parts, dtype=tf.float32, scope="m"):
    """Return the values of the variable in a new graph after initialization."""
    with tf.Graph().as_default(), tf.Session() as session:
        whole = tf.convert_to_tensor(embedding(parts, dtype, scope))
        session.run(tf.global_variables_initializer())
        init.init(session)
        return session.run(whole)


@pytest.fixture
def saved(tmp_path):
    """The path of a checkpoint that `tf.train.Saver` wrote of three parts."""
    with tf.Graph().as_default(), tf.Session() as session:
        embedding(3)
        parts = tf.global_variables()
        for part, value in zip(parts, np.split(VALUES, [3, 5])):
            session.run(part.initializer, {part.initializer.inputs[1]: value})
        return tf.train.Saver().save(session, str(tmp_path / "saved"), write_meta_graph=False)


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(
    "load", [SaverRestore, SaverRestoreRelaxed, lambda path: DictRestore(load_checkpoint_vars(path))]
)
def test_another_number_of_parts(saved, load, parts):
    """Each initializer loads a variable of three parts into any number of parts, and into a variable without parts."""
    np.testing.assert_array_equal(VALUES, value_after(load(saved), parts))


@pytest.mark.parametrize("load", [SaverRestore, SaverRestoreRelaxed])
def test_conversions(saved, load):
    """Parts are converted to another dtype, and found below a prefix."""
    np.testing.assert_array_equal(VALUES, value_after(load(saved), 2, tf.float64))
    np.testing.assert_array_equal(VALUES, value_after(load(saved, prefix="p"), 2, scope="p/m"))


def test_another_shape(saved):
    """A whole of another shape is an error, or is skipped with ignore_mismatch, although one of the parts would fit."""
    other = {"m/emb": np.ones([3, 2], "float32")}
    with pytest.raises(ValueError, match=r"Variable m/emb has shape \(7, 2\), but its new value has shape \(3, 2\)"):
        value_after(DictRestore(other), 3)
    np.testing.assert_array_equal(0 * VALUES, value_after(DictRestore(other, ignore_mismatch=True), 3))
    save_checkpoint_vars(other, saved + "-other")
    with pytest.raises(ValueError, match=r"m/emb/part_0 \(7, 2\) \(in the checkpoint \(3, 2\)\)"):
        value_after(SaverRestore(saved + "-other"), 3)
    np.testing.assert_array_equal(0 * VALUES, value_after(SaverRestoreRelaxed(saved + "-other"), 3))


@pytest.mark.parametrize("name", ["x.npz", "x"])
def test_dumped_parameters(tmp_path, saved, name, sess):
    """`dump_session_params` writes the whole, which another number of parts can load."""
    embedding(3)
    SaverRestore(saved).init(sess)
    dump_session_params(str(tmp_path / name))
    assert ["m/emb"] == sorted(load_checkpoint_vars(str(tmp_path / name)))
    np.testing.assert_array_equal(VALUES, value_after(SmartInit(str(tmp_path / name)), 2))


@pytest.mark.parametrize("load", [SmartInit, lambda path: DictRestore(load_checkpoint_vars(path))])
def test_files_with_parts(tmp_path, load):
    """A file of an earlier version, with the parts under their own names, can still be loaded into as many parts."""
    values = {f"m/emb/part_{i}": value for i, value in enumerate(np.split(VALUES, [3, 5]))}
    save_checkpoint_vars(values, str(tmp_path / "x"))
    np.testing.assert_array_equal(VALUES, value_after(load(str(tmp_path / "x")), 3))


def test_prediction(saved):
    """A predictor computes with the values in the checkpoint."""

    def tower(x):
        tf.gather(tf.convert_to_tensor(embedding(2)), x, name="out")

    config = PredictConfig(
        input_signature=[tf.TensorSpec([None], tf.int32, "x")],
        tower_func=tower,
        session_init=SmartInit(saved),
        input_names=["x"],
        output_names=["out"],
    )
    np.testing.assert_array_equal(VALUES[[0, 6]], OfflinePredictor(config)([0, 6])[0])


def test_commands(tmp_path, saved, capsys):
    """`dump-params` and `ls-checkpoint` show the whole."""
    assert 0 == main(["dump-params", saved, str(tmp_path / "dumped.npz")])
    np.testing.assert_array_equal(VALUES, value_after(SmartInit(str(tmp_path / "dumped.npz")), 2))
    assert 0 == main(["ls-checkpoint", saved])
    assert "m/emb" in capsys.readouterr().out


class ChangeBehindSaver(Callback):
    """Adds 1 to the first row at the end of each epoch, after the checkpoint was saved."""

    def _trigger(self):
        (part, *_) = (one for one in tf.global_variables() if one.op.name.startswith("m/emb"))
        value = np.array(self.trainer.sess.run(part))
        value[0] += 1
        SessionUpdate(self.trainer.sess, [part]).update({part.name: value})


def train(parts, epochs, make_trainer=SimpleTrainer, exact="require"):
    """Train or resume with Momentum, averages and accumulated gradients. Return all whole variables at the end."""

    def model(x):
        whole = tf.convert_to_tensor(embedding(parts))
        return tf.reduce_sum((whole - VALUES) ** 2) * x

    def optimizer():
        return AccumGradOptimizer(tf.train.MomentumOptimizer(0.01, 0.9), 2)

    config = AutoResumeTrainConfig(steps_per_epoch=3, max_epoch=epochs, exact=exact)
    saver = ModelSaver()
    report = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar("error", -self.epoch_num))
    callbacks = [EMAWeights(0.5), saver, report, MinSaver("error"), ChangeBehindSaver()]
    with tf.Graph().as_default():
        trainer = make_trainer()
        begin_exact_resume(config.session_init, exact, trainer)
        data = QueueInput(RepeatedData(DataFromList([[np.float32(1)]]), -1))
        trainer.setup_graph([tf.TensorSpec([], tf.float32, "x")], data, model, optimizer)
        trainer.train_with_defaults(
            callbacks=callbacks,
            monitors=[],
            extra_callbacks=[],
            session_init=config.session_init,
            starting_epoch=config.starting_epoch,
            steps_per_epoch=3,
            max_epoch=epochs,
        )
    return load_checkpoint_vars(saver.latest)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("trainer", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)])
def test_resume(tmp_path, trainer):
    """A training that resumes, also with other numbers of parts, computes what one without an interruption does, with all slots and averages."""
    logger.set_logger_dir(str(tmp_path / "at_once"), action="d")
    expected = train(3, 4, trainer)
    logger.set_logger_dir(str(tmp_path / "resumed"), action="d")
    train(3, 2, trainer)
    train(3, 3, trainer)
    resumed = train(2, 4, trainer)
    assert expected.keys() == resumed.keys()
    assert "m/emb/Momentum" in expected
    assert "m/emb/ExponentialMovingAverage" in expected
    for name, value in expected.items():
        np.testing.assert_allclose(value, resumed[name], rtol=1e-6, err_msg=name)
