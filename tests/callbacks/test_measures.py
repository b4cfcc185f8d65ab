"""Accuracy, ConfusionMatrix, AUC and RegressionErrors: their numbers are those of scikit-learn, however the samples are divided."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.trainers import ScalingTrainer, run
from sklearn import metrics

from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.callbacks.measures import AUC, Accuracy, ConfusionMatrix, RegressionErrors
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.tfutils.tower.func import TowerFunc

CLASSES = ["cat", "dog", "bird", "fish"]


def numbers(inferencer, *arrays, size=7):
    """Return the numbers of a round over samples in datapoints of at most `size`."""
    inferencer._before_inference()
    for first in range(0, len(arrays[0]), size):
        inferencer.on_fetches([array[first : first + size] for array in arrays])
    return inferencer.get_numbers()


def check(expected, found):
    """Check that two dicts have the same names in any order, and values that agree to 1e-12."""
    assert sorted(expected) == sorted(found)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-12, err_msg=name)


def classification(count=100, seed=0, num_classes=4):
    """Return random scores, float32, and labels that they predict better than chance."""
    rng = np.random.RandomState(seed)
    label = rng.randint(num_classes, size=count)
    scores = rng.randn(count, num_classes) + 1.5 * np.eye(num_classes)[label]
    return scores.astype("float32"), label.astype("int32")


def macro(prefix, label, predicted, names=()):
    """Return what ConfusionMatrix reports, computed by scikit-learn."""
    found = {}
    classes = np.union1d(label, predicted)
    for average in ["macro", None] if names else ["macro"]:
        values = metrics.precision_recall_fscore_support(label, predicted, average=average, zero_division=0)
        for measure, value in zip(["precision", "recall", "f1"], values):
            for number, own in [("", value)] if average else zip(classes, value):
                name = f"{names[number]}_" if average is None else ""
                found[f"{prefix}_{name}{measure}"] = own
    return found


@pytest.mark.parametrize("size", [1, 7, 100])
class TestAgainstScikitLearn:
    def test_accuracy(self, size):
        """The accuracy and top-k accuracy of scores, and the accuracy of predicted classes."""
        scores, label = classification()
        expected = {
            "validation_accuracy": metrics.accuracy_score(label, scores.argmax(1)),
            "validation_top2_accuracy": metrics.top_k_accuracy_score(label, scores, k=2),
        }
        check(expected, numbers(Accuracy("s", "l", k=[1, 2]), scores, label, size=size))
        found = numbers(Accuracy("s", "l", prefix=""), scores.argmax(1), label.astype("float32"), size=size)
        check({"accuracy": expected["validation_accuracy"]}, found)

    @pytest.mark.parametrize("is_skewed", [False, True])
    def test_confusion_matrix(self, size, is_skewed):
        """Precision, recall and F1, together and of each class, also if some classes do not occur or are never predicted."""
        scores, label = classification()
        if is_skewed:
            scores[:, 1] = -9
            label = np.where(label == 3, 2, label)
        matrix = ConfusionMatrix("s", "l", CLASSES)
        check(macro("validation", label, scores.argmax(1), CLASSES), numbers(matrix, scores, label, size=size))
        classes = range(4)
        assert metrics.confusion_matrix(label, scores.argmax(1), labels=classes).tolist() == matrix.matrix.tolist()
        without_names = ConfusionMatrix("s", "l", prefix="val")
        check(macro("val", label, scores.argmax(1)), numbers(without_names, scores.argmax(1), label, size=size))

    def test_auc_of_two_classes(self, size):
        """The area under the ROC curve, also with equal scores."""
        scores, label = classification(num_classes=2)
        score = np.round(scores[:, 1], 1)
        found = numbers(AUC("s", "l"), score, label, size=size)
        check({"validation_auc": metrics.roc_auc_score(label, score)}, found)

    def test_auc_of_several_classes(self, size):
        """The mean over each class against the others, and the areas of the classes."""
        scores, label = classification()
        probabilities = np.exp(scores.astype("float64"))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        own = metrics.roc_auc_score(np.eye(4)[label], probabilities, average=None)
        expected = {f"validation_{name}_auc": area for name, area in zip(CLASSES, own)}
        expected["validation_auc"] = metrics.roc_auc_score(label, probabilities, multi_class="ovr")
        check(expected, numbers(AUC("s", "l", CLASSES), probabilities, label, size=size))

    def test_auc_of_several_labels(self, size):
        """Each sample may belong to several classes."""
        rng = np.random.RandomState(1)
        label, score = rng.randint(2, size=[60, 3]), rng.rand(60, 3)
        check(
            {"auc": metrics.roc_auc_score(label, score)},
            numbers(AUC("s", "l", prefix=""), score, label, size=size),
        )

    @pytest.mark.parametrize("offset", [0, 1e6])
    def test_regression(self, size, offset):
        """Errors and R2 of one output, and of several, also of labels that are large compared with their differences."""
        rng = np.random.RandomState(2)
        label = offset + rng.randn(50, 3) * [1, 10, 100]
        prediction = label + rng.randn(50, 3) * [1, 2, 30]
        own = {"raw_values": ["_width", "_height", "_depth"], "uniform_average": [""]}
        expected = {}
        for average, names in own.items():
            squares = metrics.mean_squared_error(label, prediction, multioutput="raw_values")
            rmse = np.sqrt(squares) if average == "raw_values" else np.sqrt(squares).mean()
            found = {
                "mae": metrics.mean_absolute_error(label, prediction, multioutput=average),
                "rmse": rmse,
                "r2": metrics.r2_score(label, prediction, multioutput=average),
            }
            for measure, values in found.items():
                expected.update({f"val{name}_{measure}": v for name, v in zip(names, np.atleast_1d(values))})
        found = numbers(RegressionErrors("p", "l", ["width", "height", "depth"], "val"), prediction, label, size=size)
        check(expected, found)
        expected = {f"validation_{m}": expected[f"val_width_{m}"] for m in ("mae", "rmse", "r2")}
        check(expected, numbers(RegressionErrors("p", "l"), prediction[:, 0], label[:, 0], size=size))


class TestUnusualValues:
    def test_equal_scores(self):
        """Equal scores are in the order of the classes, so a model that does not distinguish them is not right."""
        found = numbers(Accuracy("s", "l", k=[1, 2]), np.zeros([4, 4], "float32"), np.arange(4))
        assert {"validation_accuracy": 0.25, "validation_top2_accuracy": 0.5} == found

    def test_nan_is_wrong(self):
        """A prediction with a NaN is wrong in each measure of classification."""
        scores, label = np.float32([[np.nan, 0], [np.nan, 0], [0, 1], [1, 0]]), np.array([0, 1, 1, 0])
        assert {"validation_accuracy": 0.5} == numbers(Accuracy("s", "l"), scores, label)
        matrix = ConfusionMatrix("s", "l")
        assert {
            "validation_precision": 1.0,
            "validation_recall": 0.5,
            "validation_f1": 2 / 3,
        } == pytest.approx(numbers(matrix, scores, label), abs=1e-12)
        assert [[1, 0], [0, 1]] == matrix.matrix.tolist()
        assert np.isnan(numbers(AUC("s", "l"), scores[:, 0], label)["validation_auc"])
        assert np.isnan(numbers(RegressionErrors("s", "l"), scores[:, 0], label)["validation_mae"])

    def test_labels_of_one_class(self, log_lines):
        """A class without positive or negative samples has no area; the others count, and one warning says so."""
        scores, label = np.random.RandomState(0).rand(9, 3), np.array([0, 1] * 4 + [0])
        auc = AUC("s", "l", ["a", "b", "c"])
        own = [metrics.roc_auc_score(label == number, scores[:, number]) for number in (0, 1)]
        expected = {"validation_a_auc": own[0], "validation_b_auc": own[1], "validation_auc": np.mean(own)}
        check(expected, numbers(auc, scores, label))
        check(expected, numbers(auc, scores, label))
        assert 1 == sum(
            "AUC: the area is undefined for class c, because all labels are equal" in line for line in log_lines
        )
        assert {} == numbers(AUC("s", "l"), scores[:, 0], np.zeros(9))

    def test_constant_labels(self):
        """If all labels are equal, R2 is 1 without an error and 0 with one. A single sample has none."""
        label = np.full(3, 0.1)
        assert 1.0 == numbers(RegressionErrors("p", "l"), label, label)["validation_r2"]
        assert 0.0 == numbers(RegressionErrors("p", "l"), label + 1, label)["validation_r2"]
        assert ["validation_mae", "validation_rmse"] == sorted(
            numbers(RegressionErrors("p", "l"), label[:1], label[:1])
        )

    @pytest.mark.parametrize("dtype", ["float16", "float64", tf.bfloat16.as_numpy_dtype], ids=str)
    def test_other_types(self, dtype):
        """Scores of any type count."""
        scores, label = classification()
        scores = scores.astype(dtype)
        exact = scores.astype("float64")
        check(
            {"validation_accuracy": np.mean(exact.argmax(1) == label)},
            numbers(Accuracy("s", "l"), scores, label),
        )
        expected = np.mean([metrics.roc_auc_score(label == k, exact[:, k]) for k in range(4)])
        check({"validation_auc": expected}, numbers(AUC("s", "l"), scores, label))

    def test_each_element_counts(self):
        """With further dimensions, such as time, each element is a sample."""
        scores, label = classification(60)
        found = numbers(Accuracy("s", "l"), scores.reshape([10, 6, 4]), label.reshape([10, 6]))
        check({"validation_accuracy": metrics.accuracy_score(label, scores.argmax(1))}, found)

    def test_nothing(self):
        """Vectors without elements have no numbers."""
        assert {} == numbers(Accuracy("s", "l"), np.zeros([0, 3]), np.zeros([0]))
        for measure in (Accuracy, ConfusionMatrix, AUC, RegressionErrors):
            inferencer = measure("s", "l")
            inferencer._before_inference()
            inferencer.on_fetches([np.zeros([0], "int32")] * 2)
            assert {} == inferencer.get_numbers()

    def test_the_next_round(self):
        """A round does not include the samples of the one before."""
        scores, label = classification(40)
        infs = [Accuracy("s", "l"), ConfusionMatrix("s", "l"), AUC("s", "l")]
        first = [numbers(inf, scores[:20], label[:20]) for inf in infs]
        for inf in infs:
            numbers(inf, scores[20:], label[20:])
        assert first == [numbers(inf, scores[:20], label[:20]) for inf in infs]


N, NC = np.zeros(4), np.zeros([4, 3], "float32")
WRONG = {
    "k of 0": (lambda: Accuracy("s", "l", k=0), "Accuracy: k is too small .expected at least 1, got 0"),
    "no k": (lambda: Accuracy("s", "l", k=[]), "Accuracy: k is too small"),
    "k above C": (lambda: numbers(Accuracy("s", "l", k=5), NC, N), r"k is larger than .* \(5 > 3\)"),
    "k of classes": (lambda: numbers(Accuracy("s", "l", k=2), N.astype(int), N), r"k is larger than .* \(2 > 1\)"),
    "one score": (lambda: numbers(Accuracy("s", "l"), N, N), r"got 's', float64\[4\], .* tf.cast\(score > 0.5"),
    "one column": (lambda: numbers(Accuracy("s", "l"), NC[:, :1], N), r"scores \[N, C\] with C >= 2"),
    "column of labels": (lambda: numbers(Accuracy("s", "l"), NC, NC[:, :1]), r"expected labels \[N\]"),
    "one-hot labels": (lambda: numbers(Accuracy("s", "l"), NC, NC), r"expected labels \[N\]"),
    "label of another class": (
        lambda: numbers(ConfusionMatrix("s", "l"), NC, N + 255),
        "ConfusionMatrix: expected class numbers below 3, got 255 in 'l'.* tf.boolean_mask",
    ),
    "negative label": (lambda: numbers(Accuracy("s", "l"), NC, N - 1), "'l' is not a tensor of class numbers"),
    "fractional label": (lambda: numbers(Accuracy("s", "l"), NC, N + 0.5), "'l' is not a tensor of class numbers"),
    "NaN label": (lambda: numbers(Accuracy("s", "l"), NC, N * np.nan), "'l' is not a tensor of class numbers"),
    "too few names": (
        lambda: numbers(ConfusionMatrix("s", "l", "ab"), NC, N),
        r"names \(expected 3, the number of classes, got 2\)",
    ),
    "too many names": (
        lambda: numbers(ConfusionMatrix("s", "l", CLASSES), NC, N),
        r"names \(expected 3, the number of classes, got 4\)",
    ),
    "names of AUC": (
        lambda: numbers(AUC("s", "l", "ab"), NC, N),
        r"names \(expected 3, the number of classes, got 2\)",
    ),
    "AUC of other labels": (lambda: numbers(AUC("s", "l"), N, N + 2), "expected class numbers below 2, got 2"),
    "AUC of a column": (lambda: numbers(AUC("s", "l"), NC[:, :1], N), r"'s' of shape \(4, 1\) and 'l' of shape \(4,\)"),
    "a column and a vector": (
        lambda: numbers(RegressionErrors("s", "l"), NC[:, :1], N),
        r"'s' of shape \(4, 1\) and 'l' of shape \(4,\). Use tf.reshape",
    ),
    "names of outputs": (
        lambda: numbers(RegressionErrors("s", "l", "ab"), NC, NC),
        r"names \(expected 3, the number of outputs, got 2\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    """Tensors that do not fit are an error that says what was expected, not a wrong number."""
    make, match = WRONG[name]
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("infs", [lambda: [Accuracy("s", "l", [1, 3]), ConfusionMatrix("s", "l", CLASSES)]])
def test_names_that_are_known_before(infs):
    """The reported names are known before training."""
    scores, label = classification()
    for inf in infs():
        assert sorted(inf.reported_names) == sorted(numbers(inf, scores, label))


RUNNERS = {
    "one": InferenceRunner,
    "feed": lambda df, infs, **kw: InferenceRunner(FeedInput(df, infinite=False), infs, **kw),
    "queue": lambda df, infs, **kw: InferenceRunner(QueueInput(df), infs, **kw),
    "dataset": lambda df, infs, **kw: InferenceRunner(TFDatasetInput(df), infs, **kw),
    "two towers": lambda df, infs, **kw: DataParallelInferenceRunner(df, infs, 2, **kw),
    "three towers": lambda df, infs, **kw: DataParallelInferenceRunner(df, infs, 3, **kw),
    "sharded": ShardedInferenceRunner,
}


@pytest.mark.law
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_runner(runner):
    """Each runner reports the numbers of scikit-learn over all samples, with a smaller last batch, in each epoch."""
    scores, label = classification(38)

    def model(scores, label):
        tf.identity(scores[:, 1], name="output")
        tf.cast(label, tf.float32, name="target")

    spec = [tf.TensorSpec([None, 4], tf.float32, "scores"), tf.TensorSpec([None], tf.int32, "label")]
    infs = [
        Accuracy("scores", "label", k=[1, 2]),
        ConfusionMatrix("scores", "label"),
        AUC("scores", "label"),
        RegressionErrors("output", "target"),
    ]
    data = BatchData(DataFromList(list(zip(scores, label)), shuffle=False), 5, remainder=True)
    trainer = run(ScalingTrainer(), [RUNNERS[runner](data, infs, tower_func=TowerFunc(model, spec))])

    output = scores[:, 1].astype("float64")
    expected = {
        "validation_accuracy": metrics.accuracy_score(label, scores.argmax(1)),
        "validation_top2_accuracy": metrics.top_k_accuracy_score(label, scores, k=2),
        **macro("validation", label, scores.argmax(1)),
        "validation_auc": np.mean([metrics.roc_auc_score(label == k, scores[:, k]) for k in range(4)]),
        "validation_mae": metrics.mean_absolute_error(label, output),
        "validation_rmse": np.sqrt(metrics.mean_squared_error(label, output)),
        "validation_r2": metrics.r2_score(label, output),
    }
    check(
        expected,
        {name: trainer.monitors.get_latest(name) for name in trainer.monitors.scalar_names if "queue" not in name},
    )
    for name in expected:
        (first_step, first), (second_step, second) = trainer.monitors.get_history(name)
        assert ((2, 4), first) == ((first_step, second_step), second)


@pytest.mark.parametrize(
    ("make", "results", "message"),
    [
        (lambda: AUC("p", "y"), [([[1, 2]], [[0, 1]]), ([[1, 2, 3]], [[0, 1, 1]])], "number of classes differs"),
        (lambda: RegressionErrors("p", "y"), [([[1, 2]], [[0, 1]]), ([[1]], [[0]])], "number of outputs differs"),
        (lambda: Accuracy("p", "y"), [([[1, 2]], [0]), ([[1, 2, 3]], [0])], "number of classes differs"),
        (lambda: ConfusionMatrix("p", "y"), [([5], [10**6])], "the largest class number is 1000000"),
        (lambda: ConfusionMatrix("p", "y"), [([5], ["cat"])], "not a tensor of class numbers"),
        (lambda: Accuracy("p", "y"), [([[1, 2]], ["cat"])], "not a tensor of class numbers"),
    ],
)
def test_datapoints_that_do_not_fit(make, results, message):
    """An error names the inferencer and what does not fit, instead of a wrong number or an error of NumPy."""
    inferencer = make()
    inferencer._before_epoch()
    with pytest.raises(ValueError, match=message):
        for prediction, label in results:
            inferencer.on_fetches([np.array(prediction), np.array(label)])


def test_names_that_are_equal():
    """Equal or empty names of classes would hide numbers, so they raise ValueError."""
    for names in ["a", "a"], ["a", ""]:
        with pytest.raises(ValueError, match="expected distinct names"):
            ConfusionMatrix("p", "y", class_names=names)


def test_whole_numbers_of_numpy():
    """`k` may be an integer of NumPy."""
    assert ["validation_top5_accuracy"] == Accuracy("p", "y", k=np.int64(5)).reported_names
