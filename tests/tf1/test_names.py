"""The names of TensorFlow 1.15 that an old script finds, and the table of them in the documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tensorpack_lite.compat import TF_VERSION

ROOT = Path(__file__).resolve().parents[2]

# the names of tf.contrib that 36 public projects with tensorpack use
CONTRIB = {
    "layers": (
        "variance_scaling_initializer l2_regularizer l1_regularizer layer_norm batch_norm "
        "xavier_initializer xavier_initializer_conv2d convolution2d dropout fully_connected"
    ),
    "tfprof": ("model_analyzer"),
    "training": ("GreedyLoadBalancingStrategy byte_size_load_fn HParams"),
    "memory_stats": ("BytesInUse MaxBytesInUse BytesLimit"),
    "slim": ("conv2d fully_connected arg_scope max_pool2d repeat avg_pool2d batch_norm dropout separable_conv2d"),
    "rnn": (
        "GRUCell LSTMCell BasicLSTMCell LSTMBlockCell LayerNormBasicLSTMCell MultiRNNCell "
        "DropoutWrapper AttentionCellWrapper static_rnn LSTMStateTuple"
    ),
    "framework": ("add_arg_scope arg_scope sort local_variable"),
    "seq2seq": (
        "AttentionWrapper BahdanauAttention LuongAttention BasicDecoder dynamic_decode "
        "TrainingHelper GreedyEmbeddingHelper sequence_loss"
    ),
    "util": ("make_tensor_proto"),
    "image": ("rotate transform translate"),
    "opt": (
        "AdamWOptimizer LazyAdamOptimizer NadamOptimizer MovingAverageOptimizer extend_with_decoupled_weight_decay"
    ),
}

ROWS = "layers.dense\ttf_keras\ntrain.Saver\tTensorFlow\ntrain.Old\tmissing\ncontrib.slim.conv2d\ttf_slim\nadd\tTensorFlow\n"


@pytest.fixture(scope="module")
def table():
    """docs/ext/tf1_table.py as a module."""
    spec = importlib.util.spec_from_file_location("tf1_table", str(ROOT / "docs" / "ext" / "tf1_table.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table(table):
    """The table has a row of counts for each module, and lists the missing names."""
    assert [
        "| module | names | TensorFlow | tf_keras | tf_slim | tensorpack_lite | missing |",
        "| --- | --: | --: | --: | --: | --: | --: |",
        "| `tf` | 1 | 1 |  |  |  |  |",
        "| `tf.contrib.slim` | 1 |  |  | 1 |  |  |",
        "| `tf.layers` | 1 |  | 1 |  |  |  |",
        "| `tf.train` | 2 | 1 |  |  |  | 1 |",
        "| **all** | 5 | 2 | 1 | 1 |  | 1 |",
        "",
        "**Missing names**",
        "",
        "| module | names |",
        "| --- | --- |",
        "| `tf.train` | `Old` |",
    ] == table.markdown(ROWS).splitlines()


def test_nothing_missing(table):
    """Without missing names, a sentence replaces the list."""
    assert "No name is missing." in table.markdown("train.Saver\tTensorFlow\n")


@pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has all of its names")
def test_fill_ins():
    """`tf.config.experimental_list_devices()` returns the names of the devices."""
    from tensorpack_lite.tf1.missing import MISSING

    assert "/device:CPU:0" in MISSING["config.experimental_list_devices"]()()


@pytest.fixture(scope="module")
def sources(table):
    """The source of each name on this TensorFlow."""
    for package, needed in [("tf_keras", TF_VERSION >= (2, 16)), ("tf_slim", TF_VERSION >= (2, 0))]:
        if needed and not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    return dict(line.split("\t") for line in table.read_sources().splitlines())


@pytest.mark.slow
class TestOnThisTensorFlow:
    @pytest.mark.parametrize("module", ["layers", "nn", "nn.rnn_cell", "losses", "metrics", "train", "image"])
    def test_complete_modules(self, sources, module):
        """No name of these modules is missing."""
        names = [name for name in sources if name.rpartition(".")[0] == module]
        assert 5 < len(names)
        assert [] == [name for name in names if sources[name] == "missing"]

    def test_contrib(self, sources):
        """The names of tf.contrib that projects use are found."""
        names = [f"contrib.{module}.{name}" for module, text in CONTRIB.items() for name in text.split()]
        assert [] == [name for name in names if sources[name] == "missing"]

    def test_most_names(self, sources):
        """At most one name in ten is missing, without tf.estimator, which TensorFlow 2.16 dropped."""
        others = [name for name in sources if not name.startswith("estimator")]
        assert len(others) / 10 > sum(sources[name] == "missing" for name in others)
