"""
A network for the rows of a CSV file, evaluated by cross-validation.

Shows: one graph per fold, scikit-learn's preprocessing inside the fold, early stopping, a SavedModel and predictions with it.
Expect: a mean R2 of about 0.45 on diabetes, an AUC of about 0.99 on breast_cancer. --compare adds scikit-learn's boosted trees.

    python examples/tabular.py --compare                     scikit-learn's diabetes: regression; no download
    python examples/tabular.py --csv breast_cancer --compare     classification
    python examples/tabular.py --csv FILE --target NAME      another file; its first line has the names of the columns
    python examples/tabular.py --predict FILE                write predictions.csv for these rows, with the last model
    python examples/tabular.py --resume                      continue the last run in train_log/

train_log/tabular/ then contains a directory per training, the cost of held-out rows in curves.png, and the model.
"""

from __future__ import annotations

import argparse

import joblib
import numpy as np
from data import tables
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.predict.export import ModelExporter


class Model(ModelDesc):
    """Two hidden layers. If there are no classes, the target is a number with this mean and standard deviation."""

    def __init__(self, size: int, num_classes: int, mean: float, scale: float) -> None:
        super().__init__()
        self.size, self.num_classes, self.mean, self.scale = size, num_classes, mean, scale

    def inputs(self):
        return [tf.TensorSpec([None, self.size], name="row"), tf.TensorSpec([None], name="target")]

    def build_graph(self, row, target):
        x = Dropout(FullyConnected("fc0", row, 64, activation=tf.nn.relu), rate=0.3)
        x = Dropout(FullyConnected("fc1", x, 64, activation=tf.nn.relu), rate=0.3)
        x = FullyConnected("fc2", x, self.num_classes or 1)
        if self.num_classes:
            tf.nn.softmax(x, name="prediction")
            cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=x, labels=tf.cast(target, tf.int32))
        else:
            tf.add(x[:, 0] * self.scale, self.mean, name="prediction")
            cost = tf.square(x[:, 0] - (target - self.mean) / self.scale)
        return tf.reduce_mean(cost, name="cost") + 1e-3 * regularize_cost(".*/W", tf.nn.l2_loss)

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


def get_config(model: Model, train: list, held_out: list, args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of a training, which ends when the cost of held-out rows stops falling."""
    data = BatchData(DataFromList(train), min(32, len(train)))
    validation = BatchData(DataFromList(held_out, shuffle=False), len(held_out))
    return (AutoResumeTrainConfig if args.resume else TrainConfig)(
        model=model,
        data=FeedInput(data),
        callbacks=[
            InferenceRunner(validation, ScalarStats("cost")),
            ModelSaver(max_to_keep=1),
            MinSaver("validation_cost"),
            EarlyStopping("validation_cost", patience=10),
        ],
        steps_per_epoch=args.steps_per_epoch or max(len(data), 50),  # 50: fewer checkpoints of small tables
        max_epoch=args.max_epoch,
    )


def fit(x, y, num_classes: int, axes, name: str, args: argparse.Namespace) -> tuple:
    """Fit the preparation and the model; a sixth of the rows decides when to stop. Return both, with the best weights."""
    logger.set_logger_dir(f"{args.log_dir}/{name}", action="k")
    fix_rng_seed(args.seed)
    held_out = np.random.RandomState(args.seed).permutation(len(y)) < len(y) / 6
    prepare = tables.make_preparation(x).fit(x[~held_out])
    rows, targets = prepare.transform(x).astype("float32"), y.astype("float32")
    model = Model(rows.shape[1], num_classes, float(y[~held_out].mean()), float(y[~held_out].std()))
    parts = [list(zip(rows[part], targets[part])) for part in (~held_out, held_out)]
    with tf.Graph().as_default():
        tf.set_random_seed(args.seed)
        trainer = SimpleTrainer()
        launch_train_with_config(get_config(model, parts[0], parts[1], args), trainer)
    axes.plot(*zip(*trainer.monitors.get_history("validation_cost")), label=name)
    best = SmartInit(f"{args.log_dir}/{name}/min-validation_cost")
    return prepare, PredictConfig(model, session_init=best, input_names=["row"], output_names=["prediction"])


def cross_validate(x, y, num_classes: int, axes, args: argparse.Namespace) -> None:
    """Train a model per fold, and print the scores on the rows that it has not seen."""
    folds = tables.make_folds(num_classes, args.folds, args.seed)
    scores: dict = {"network": []}
    for k, (rows, test) in enumerate(folds.split(x, y)):
        prepare, config = fit(x[rows], y[rows], num_classes, axes, f"fold{k}", args)
        predicted = OfflinePredictor(config)(prepare.transform(x[test]))[0]
        scores["network"].append(tables.score(y[test], predicted, num_classes))
    if args.compare:
        scores["boosted trees"] = tables.score_trees(x, y, num_classes, folds, args.seed)
    for name, values in scores.items():
        print(f"{name}: {'AUC' if num_classes else 'R2'} {np.mean(values):.3f}, folds {np.round(values, 3)}")


def write_predictions(args: argparse.Namespace) -> None:
    """Write predictions.csv for the rows of a file. The exported model and columns.joblib suffice for this."""
    prepare, names, words, classes = joblib.load(f"{args.log_dir}/columns.joblib")
    columns = tables.read_columns(args.predict, [names[k] for k in words])
    rows = prepare.transform(np.stack([columns[name] for name in names], axis=1))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], f"{args.log_dir}/model")
        predicted = session.run("prediction:0", {"row:0": rows})
    predicted = np.array(classes)[predicted.argmax(axis=1)] if len(classes) else predicted
    np.savetxt(f"{args.log_dir}/predictions.csv", predicted, fmt="%s")


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", default="diabetes", help="a file, diabetes or breast_cancer")
    parser.add_argument("--target", default="target", help="name of the column to predict")
    parser.add_argument("--categorical", nargs="*", default=[], help="numbers that are categories")
    parser.add_argument("--compare", action="store_true", help="also train HistGradientBoosting on the folds")
    parser.add_argument("--predict", default="", metavar="FILE", help="predict rows with the last model")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoints")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--max-epoch", type=int, default=100)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all rows, and at least 50 steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default="train_log/tabular")
    args = parser.parse_args(argv)
    if args.predict:
        write_predictions(args)
        return
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()
    columns = tables.read_columns(args.csv, args.categorical)
    x, y, classes = tables.split_target(columns, args.target)
    axes = Figure().subplots()
    cross_validate(x, y, len(classes), axes, args)
    prepare, config = fit(x, y, len(classes), axes, "all", args)
    ModelExporter(config).export_serving(f"{args.log_dir}/model", overwrite=True)
    names = [name for name in columns if name != args.target]
    joblib.dump((prepare, names, tables.find_words(x), classes), f"{args.log_dir}/columns.joblib")
    axes.legend()
    axes.figure.savefig(f"{args.log_dir}/curves.png")


if __name__ == "__main__":
    main()
