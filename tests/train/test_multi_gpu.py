"""train/multi_gpu.py: one tower per device. See tests/integration/test_multi_equals_single.py for the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.models import FinalW, Golden, Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.mix import ConcatData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tensor import DummyConstantInput, TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.train import (
    AsyncMultiGPUTrainer,
    NoOpTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    launch_train_with_config,
    multi_gpu,
)
from tensorpack_lite.train.interface import apply_default_prefetch
from tensorpack_lite.train.multi_gpu import _choose_mode

KINDS = [SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated, AsyncMultiGPUTrainer]


def set_up(trainer, model=None, source=None):
    """Build the graph of a trainer, and return the trainer."""
    model = model or Mean()
    trainer.setup_graph(
        model.get_input_signature(), source or QueueInput(threes()), model.build_graph, model.get_optimizer
    )
    return trainer


def operation(name):
    return tf.get_default_graph().get_operation_by_name(name)


class Probe(Callback):
    """Calls a function with the trainer at each named moment."""

    def __init__(self, **functions):
        for moment, function in functions.items():
            setattr(self, f"_{moment}", lambda *args, function=function: function(self.trainer))


@pytest.mark.parametrize("kind", KINDS)
class TestEachKind:
    @pytest.mark.parametrize(("gpus", "devices"), [(3, [0, 1, 2]), ([2, 5], [2, 5]), ((1,), [1]), (1, [0])])
    def test_devices(self, kind, gpus, devices):
        """A number means the first GPUs; a list is used unchanged."""
        assert devices == kind(gpus).devices
        assert devices == kind(gpus=gpus).devices

    @pytest.mark.parametrize(
        ("gpus", "error", "match"),
        [
            (0, ValueError, "expected at least 1 GPU, got 0"),
            (-1, ValueError, "at least 1"),
            ([], ValueError, "expected distinct numbers"),
            ([0, 0], ValueError, "expected distinct numbers"),
            ("2", TypeError, "a number of GPUs or a list"),
            (None, TypeError, "a number of GPUs or a list"),
            (True, TypeError, "a number of GPUs or a list"),
        ],
    )
    def test_wrong_gpus(self, kind, gpus, error, match):
        """Any other value of gpus raises an error."""
        with pytest.raises(error, match=match):
            kind(gpus)

    def test_a_config_in_place_of_gpus(self, kind):
        """A TrainConfig instead of gpus raises TypeError, which names both alternatives."""
        config = TrainConfig(model=Mean(), dataflow=threes(), steps_per_epoch=1)
        with pytest.raises(TypeError, match="launch_train_with_config.*trainv1"):
            kind(config)

    def test_one_tower_has_a_name(self, kind):
        """With one device the tower is named tower0, unlike that of SimpleTrainer."""
        trainer = set_up(kind(1))
        assert ["tower0"] == [tower.ns_name for tower in trainer.towers]
        assert ["tower0/cost"] == [tower.outputs.op.name for tower in trainer.towers]

    def test_fed_input(self, kind):
        """A fed input works for one tower, and raises TypeError for several."""
        with pytest.raises(TypeError, match=r"on 2 devices: expected .*Use QueueInput"):
            set_up(kind(2), source=FeedInput(threes()))
        set_up(kind(1), source=FeedInput(threes()))

    def test_the_optimizer_is_made_once(self, kind):
        """The optimizer is created once, in the first tower: its variables have no prefix, and its summaries are kept."""
        calls = []

        class Model(Golden):
            def optimizer(self):
                calls.append(tf.get_default_graph().get_name_scope())
                tf.summary.scalar("lr", 0.1)
                return super().optimizer()

        data = DataFromList([[np.zeros((4, 3), "float32"), np.zeros(4, "int32")]], shuffle=False)
        set_up(kind(2), Model(), QueueInput(data))
        assert ["tower0"] == calls
        assert "learning_rate" in [var.op.name for var in tf.global_variables()]
        assert "tower0/lr" in [summary.op.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)]

    def test_predictors_and_devices(self, kind):
        """A tower on the GPU of a training tower reads its variables; other towers read the first one's."""
        trainer = set_up(kind([4, 6]))
        own = "tower1" if kind is SyncMultiGPUTrainerReplicated else ""
        assert ["", own, "", ""] == [trainer.vs_name_for_predictor(gpu) for gpu in (4, 6, 0, -1)]

    @pytest.mark.parametrize("size", [4, 10])
    def test_what_is_said_at_the_start(self, kind, run, log_lines, size):
        """Training starts with a log line about the data of a step, of an epoch, and in total."""
        samples = DataFromList([[3.0]] * (4 * size), shuffle=False)
        run(set_up(kind(2), source=QueueInput(BatchData(samples, 4))))
        line = next(line for line in log_lines if "total batch" in line)
        assert f"2 towers x batch 4 = total batch 8; 4 datapoints per epoch; the data has {size}." == line

    def test_accumulation_at_the_start(self, kind, run, log_lines):
        """The line includes the number of steps per update, if there is more than one."""

        class Model(Mean):
            def optimizer(self):
                return apply_grad_processors(AccumGradOptimizer(super().optimizer(), 3), [])

        run(set_up(kind(2), Model()))
        line = next(line for line in log_lines if "each update takes" in line)
        expected = (
            "2 towers x the data's own batch, and each update takes 3 steps; 4 datapoints per epoch; the data has 10."
        )
        assert expected == line

    @pytest.mark.parametrize(("gpus", "names"), [(1, "tower0/raw"), (2, "tower0/raw, tower1/raw")])
    def test_raw_variable(self, kind, log_lines, gpus, names):
        """A warning names variables that are not trained and not created by `tf.get_variable`."""
        set_up(kind(gpus), WithRaw())
        (line,) = [line for line in log_lines if "not created with tf.get_variable" in line]
        assert f"tf.get_variable: {names}. They are neither shared nor synchronized between towers." in line
        assert "All are saved in checkpoints under these names." in line

    def test_no_raw_variable(self, kind, log_lines):
        """Local variables and those of metrics, optimizers and summaries cause no warning."""

        class Model(Mean):
            def build_graph(self, x):
                tf.metrics.mean(x, name="mean")
                return super().build_graph(x)

            def optimizer(self):
                return AccumGradOptimizer(tf.train.AdamOptimizer(0.1), 2)

        set_up(kind(2), Model())
        assert [] == [line for line in log_lines if "tf.get_variable" in line]


class TestBatchAtTheStart:
    """The size of a batch in the line at the start, which does not depend on the kind of the trainer."""

    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda ds: QueueInput(MapData(BatchData(ds, 4), list)), "batch 4 = total batch 8"),
            (lambda ds: BatchQueueInput(ds, 5), "batch 5 = total batch 10"),
            (lambda ds: StagingInput(QueueInput(BatchData(ds, 2))), "batch 2 = total batch 4"),
            (
                lambda ds: QueueInput(ConcatData([BatchData(ds, 4), BatchData(ds, 4)])),
                "batch 4 = total batch 8",
            ),
            (lambda ds: QueueInput(ConcatData([BatchData(ds, 4), BatchData(ds, 2)])), "the data's own batch"),
            (lambda ds: QueueInput(threes()), "the data's own batch"),
        ],
    )
    def test_size_of_a_batch(self, run, log_lines, make, said):
        """The batch size is that of the outermost BatchData; without one, or if several disagree, none is logged."""
        run(set_up(SyncMultiGPUTrainerReplicated(2), source=make(DataFromList([[3.0]] * 40, shuffle=False))))
        line = next(line for line in log_lines if line.startswith("2 towers x "))
        assert line.startswith(f"2 towers x {said}; 4 datapoints per epoch; the data has ")

    def test_what_is_not_known_at_the_start(self, run, log_lines):
        """If the size of the data is unknown, the line contains a note."""
        run(set_up(AsyncMultiGPUTrainer(1), source=DummyConstantInput([[7]])))
        said = "1 tower x batch 7 = total batch 7; 2 datapoints per epoch; the size of the data is unknown."
        assert said in log_lines

    @pytest.mark.parametrize(
        ("shapes", "said"),
        [
            ([[7, 3], [7]], "batch 7 = total batch 7"),
            ([[7, 3], [None], None], "batch 7 = total batch 7"),
            ([[32, 32, 3], []], "the data's own batch"),
            ([[], [7]], "the data's own batch"),
            ([[8], [9]], "the data's own batch"),
            ([[None], None], "the data's own batch"),
            ([], "the data's own batch"),
        ],
    )
    def test_size_of_a_batch_in_the_graph(self, run, log_lines, shapes, said):
        """The batch size is the first dimension that all inputs share; if they disagree, none is logged."""

        class Model(Mean):
            def inputs(self):
                return [tf.TensorSpec(shape, tf.float32, f"x{i}") for i, shape in enumerate(shapes)]

            def build_graph(self, *inputs):
                return super().build_graph(tf.add_n([tf.reduce_mean(x) for x in inputs] or [tf.constant(3.0)]))

        def tensors():
            values = [tf.ones([7 if side is None else side for side in shape or []]) for shape in shapes]
            return [tf.placeholder_with_default(value, shape) for value, shape in zip(values, shapes)]

        run(set_up(SyncMultiGPUTrainerReplicated(1), Model(), TensorInput(tensors)))
        expected = f"1 tower x {said}; 2 datapoints per epoch; the size of the data is unknown."
        assert expected == next(line for line in log_lines if line.startswith("1 tower x "))


class WithRaw(Mean):
    """Mean with a variable that is not trained, made without `tf.get_variable`."""

    def __init__(self, *collections):
        self.collections = collections or None

    def build_graph(self, x):
        tf.Variable(0.0, name="raw", trainable=False, use_resource=True, collections=self.collections)
        return super().build_graph(x)


class TestDefaultPrefetch:
    def test_several_devices(self):
        """For several devices, a DataFlow gets a QueueInput and a StagingInput."""
        source = apply_default_prefetch(threes(), SyncMultiGPUTrainer(2))
        assert isinstance(source, StagingInput)
        assert isinstance(source._input, QueueInput)

    def test_a_queue(self):
        """For several devices, a QueueInput gets a StagingInput."""
        queue = QueueInput(threes())
        assert queue is apply_default_prefetch(queue, SyncMultiGPUTrainerReplicated(2))._input

    def test_one_device(self):
        """One device gets no StagingInput; SimpleTrainer itself gets a FeedInput."""
        assert QueueInput is type(apply_default_prefetch(threes(), AsyncMultiGPUTrainer(1)))
        assert QueueInput is type(apply_default_prefetch(threes(), NoOpTrainer()))
        assert FeedInput is type(apply_default_prefetch(threes(), SimpleTrainer()))

    def test_others_are_left_alone(self):
        """Inputs other than a QueueInput, and a StagingInput, are used unchanged."""
        for source in (DummyConstantInput([[2]]), StagingInput(QueueInput(threes()))):
            assert source is apply_default_prefetch(source, SyncMultiGPUTrainer(2))

    def test_launched(self):
        """launch_train_with_config trains several towers, with the default callbacks."""
        config = TrainConfig(model=Mean(), dataflow=threes(), steps_per_epoch=2, max_epoch=2, monitors=[])
        launch_train_with_config(config, SyncMultiGPUTrainer(2))
        assert "tower1/StagingInput/StagingArea_get" in {op.name for op in tf.get_default_graph().get_operations()}


class TestParameterServer:
    @pytest.mark.parametrize(("gpus", "kind"), [(1, "gpu"), (2, "gpu"), (3, "cpu")])
    def test_default_place(self, gpus, kind):
        """Variables are spread over one or two GPUs; with more GPUs they are on the CPU."""
        assert kind == SyncMultiGPUTrainerParameterServer(gpus)._builder.ps_device

    def test_where_things_are(self, monkeypatch):
        """With ps_device="cpu", variables are on the CPU on every TensorFlow, and towers on their GPUs."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        set_up(SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"))
        assert "/device:CPU:0" == operation("w").device
        assert "/device:GPU:1" == operation("tower1/cost").device
        assert [] == [name for name in ("AggregateGradsColocate/AddN", "train_op") if not operation(name)]

    def test_function(self):
        """SyncMultiGPUTrainer keeps variables on the CPU."""
        trainer = SyncMultiGPUTrainer([0, 1])
        assert SyncMultiGPUTrainerParameterServer is type(trainer)
        assert "cpu" == trainer._builder.ps_device

    def test_a_shared_variable(self, log_lines):
        """Variables that one tower creates and the others use, such as those of one Keras model, cause no warning."""
        created = []

        class Model(Mean):
            def build_graph(self, x):
                if not created:
                    created.append(tf.Variable(0.0, name="raw", use_resource=True))
                return super().build_graph(x) + created[0]

        set_up(SyncMultiGPUTrainerParameterServer(2), Model())
        assert "tower0/raw" == created[0].op.name
        assert [] == [line for line in log_lines if "tf.get_variable" in line]

    def test_a_variable_from_outside(self):
        """If some towers do not use a trainable variable made outside, the error names the variable."""
        tf.get_variable("outside", initializer=0.0, use_resource=True)

        class Model(Mean):
            def build_graph(self, x):
                with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                    outside = tf.get_variable("outside", initializer=0.0)
                return super().build_graph(x) + outside

        with pytest.raises(
            ValueError,
            match=r"gradients of different variables: tower 0 has 1, tower 1 has 2 \(outside\).*contrib\.keras",
        ):
            set_up(SyncMultiGPUTrainerParameterServer(2), Model())


class TestSubclass:
    def test_gradients_of_its_own(self, run, log_lines):
        """A subclass may build its towers itself; the log then assumes one step per update."""

        class Trainer(SyncMultiGPUTrainerParameterServer):
            def _setup_graph(self, input, get_cost_fn, get_opt_fn):
                def build_tower():
                    cost = get_cost_fn(*input.get_input_tensors())
                    return get_opt_fn().compute_gradients(cost, tf.trainable_variables())

                self.train_op = self._builder.build(self._builder.call_for_each_tower(build_tower), get_opt_fn)
                return []

        last = FinalW()
        run(set_up(Trainer(2)), last)
        assert 3 - 3 / 2**4 == last.w
        wanted = "2 towers x the data's own batch; 4 datapoints per epoch; the data has 10."
        assert wanted in log_lines

    def test_an_input_of_its_own(self, run, log_lines):
        """A subclass may set up the input itself; the log then says that the size of the data is unknown."""

        class Trainer(SyncMultiGPUTrainerParameterServer):
            def _setup_input(self, input_signature, input):
                return input.setup(input_signature)

        last = FinalW()
        run(set_up(Trainer(2)), last)
        assert 3 - 3 / 2**4 == last.w
        wanted = "2 towers x the data's own batch; 4 datapoints per epoch; the size of the data is unknown."
        assert wanted in log_lines


class TestReplicated:
    @pytest.mark.parametrize(
        ("mode", "towers", "chosen"),
        [
            (None, 2, "gpu"),
            (None, 8, "hierarchical"),
            ("hierarchical", 8, "hierarchical"),
            ("HIERARCHICAL", 3, "gpu"),
            ("Collective", 2, "collective"),
            ("nccl", 2, "nccl"),
            ("cpu", 2, "cpu"),
        ],
    )
    def test_modes(self, mode, towers, chosen):
        """A possible mode is used; otherwise the default is."""
        assert chosen == _choose_mode(mode, towers)

    def test_sum(self, run):
        """With average=False gradients are added: two towers make a step twice as large."""
        seen = []
        watch = Probe(trigger_step=lambda trainer: seen.append(trainer.sess.run(trainer.find_tensor("w"))))
        run(set_up(SyncMultiGPUTrainerReplicated(2, average=False)), watch, steps_per_epoch=1, max_epoch=1)
        assert [3.0] == seen  # one step of rate 0.25 halves the distance, two at once cover it

    def test_names(self):
        """Operations that scripts and saved graphs refer to have tensorpack's names."""
        set_up(SyncMultiGPUTrainerReplicated(2))
        names = {op.name for op in tf.get_default_graph().get_operations()}
        wanted = {
            "train_op",
            "apply_gradients/apply_grad_0",
            "apply_gradients/apply_grad_1",
            "sync_variables/sync_variables_from_main_tower",
            "tower0/cost",
            "tower1/cost",
            "AllReduceNaive/AddN",
        }
        assert set() == wanted - names

    @pytest.mark.parametrize("every_epoch", [True, False])
    def test_sync(self, run, every_epoch):
        """Copies get the first tower's values before training and, unless switched off, after each epoch."""
        trainer = SyncMultiGPUTrainerReplicated(2)
        trainer.BROADCAST_EVERY_EPOCH = every_epoch
        set_up(trainer)
        differences = []

        def spoil(trainer):
            copy = next(var for var in tf.trainable_variables() if var.op.name == "tower1/w")
            copy.load(100.0, trainer.sess)

        def compare(trainer):
            values = trainer.sess.run([trainer.find_tensor("w"), trainer.find_tensor("tower1/w")])
            differences.append(values[0] != values[1])

        probe = Probe(before_train=compare, after_epoch=spoil, trigger_epoch=compare)
        run(trainer, probe, max_epoch=1)
        assert [False, not every_epoch] == differences

    def test_raw_trainable_variable(self):
        """A trainable tf.Variable raises ValueError, which names it."""

        class Model(Mean):
            def build_graph(self, x):
                raw = tf.Variable(0.0, name="raw", use_resource=True)
                return super().build_graph(x) + raw**2

        with pytest.raises(
            ValueError,
            match=r"tower0/raw, tower1/raw.*tf\.get_variable.*Keras layers, use tensorpack_lite\.contrib\.keras",
        ):
            set_up(SyncMultiGPUTrainerReplicated(2), Model())

    def test_raw_local_variable(self, log_lines):
        """The warning about a local tf.Variable does not claim that it is saved."""
        set_up(SyncMultiGPUTrainerReplicated(2), WithRaw(tf.GraphKeys.LOCAL_VARIABLES))
        (line,) = [line for line in log_lines if "tower0/raw, tower1/raw" in line]
        assert "They are neither shared nor synchronized between towers." in line

    def test_other_variables_in_a_tower(self):
        """A model with different variables in each tower raises ValueError, which names them."""
        sizes = iter(["a", "b"])

        class Model(Mean):
            def build_graph(self, x):
                return super().build_graph(x) + tf.get_variable(next(sizes), initializer=1.0) ** 2

        with pytest.raises(ValueError, match=r"different variables: tower 0 has 2, tower 1 has 2 \(a, b\)\."):
            set_up(SyncMultiGPUTrainerReplicated(2), Model())


class TestNccl:
    def test_other_dtypes(self, log_lines):
        """Mode gpu replaces NCCL for dtypes that NCCL cannot reduce."""

        class Model(Mean):
            def build_graph(self, x):
                w = tf.get_variable("c", initializer=tf.constant(1.0, tf.bfloat16))
                return super().build_graph(x) + tf.cast(w, tf.float32) ** 2

        set_up(SyncMultiGPUTrainerReplicated(2, mode="nccl"), Model())
        assert any("bfloat16" in line for line in log_lines)
        assert operation("AllReduceNaive/AddN")


class TestCollective:
    def test_steps_end_without_gpus(self, run):
        """Without GPUs the session gets a CPU device for each tower, so that steps do not hang."""
        trainer = run(set_up(SyncMultiGPUTrainerReplicated(3, mode="collective")))
        assert 4 == trainer.global_step

    def test_one_operation_a_tower(self):
        """All gradients of a tower are reduced in one buffer, if they are large enough."""

        class Model(Mean):
            def build_graph(self, x):
                parts = [tf.get_variable(name, [1000]) for name in "abc"]
                return super().build_graph(x) + tf.add_n([tf.reduce_sum(part) for part in parts])

        set_up(SyncMultiGPUTrainerReplicated(2, mode="collective"), Model())
        found = [op for op in tf.get_default_graph().get_operations() if op.type == "CollectiveReduce"]
        assert ["/device:CPU:0", "/device:CPU:1"] == [op.device for op in found]

    def test_too_few_devices(self, run):
        """A session with too few devices raises RuntimeError instead of hanging."""
        config = tf.ConfigProto(device_count={"CPU": 1}, allow_soft_placement=True)
        with pytest.raises(RuntimeError, match=r"expected 2 devices of type CPU in the session, got 1: .*device_count"):
            run(
                set_up(SyncMultiGPUTrainerReplicated(2, mode="collective")),
                session_creator=NewSessionCreator(config=config),
            )

    def test_one_device_is_enough_for_one(self, run):
        """One tower needs one device."""
        assert 4 == run(set_up(SyncMultiGPUTrainerReplicated(1, mode="collective"))).global_step


class TestAsync:
    @pytest.mark.parametrize(("gpus", "device"), [(3, "/device:GPU:0"), (4, "/device:CPU:0")])
    def test_where_variables_are(self, gpus, device, monkeypatch):
        """Variables are on the GPUs for up to three towers, otherwise on the CPU."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
        set_up(AsyncMultiGPUTrainer(gpus))
        assert device == operation("w").device

    def test_names(self):
        """One operation a variable, in its scope; gradients are scaled in theirs."""
        set_up(AsyncMultiGPUTrainer(2))
        assert operation("async_apply_gradients/apply_grad_0")
        names = [op.name for op in tf.get_default_graph().get_operations()]
        assert any(name.startswith("ScaleGradient/") for name in names)
        assert operation("train_op")


@pytest.mark.parametrize(
    ("existing", "gpus", "said"),
    [
        (0, 4, ["4 towers, on GPUs 0, 1, 2, 3, but this process sees no GPU."]),
        (1, [0, 2], ["2 towers, on GPUs 0, 2, but this process sees 1 GPU."]),
        (4, 4, []),
        (0, 1, []),
    ],
)
def test_missing_gpus(monkeypatch, log_lines, existing, gpus, said):
    """More towers than GPUs are a remark, which explains what this means."""
    monkeypatch.setattr(multi_gpu, "get_num_gpu", lambda: existing)
    SyncMultiGPUTrainerParameterServer(gpus)
    assert said == [
        line.partition(": ")[2].partition(" Towers of")[0] for line in log_lines if "this process sees" in line
    ]
