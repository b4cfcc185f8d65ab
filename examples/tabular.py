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
import contextlib
import csv
import os

import joblib
import numpy as np
from matplotlib.figure import Figure
from sklearn import compose, datasets, ensemble, impute, metrics, model_selection, pipeline, preprocessing

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.predict.export import ModelExporter


class Model(ModelDesc):
    """Two hidden layers. If there are no classes, the target is a number with this mean and standard deviation."""

    def __init__(self, size: int, num_classes: int, mean: float, scale: float) -> None:
        super().__init__()
        self.size, self.num_classes, self.mean, self.scale = size, num_classes, mean, scale

    def inputs(self):
        return [
            tf.TensorSpec([None, self.size], tf.float32, "row"),
            tf.TensorSpec([None], tf.float32, "target"),
        ]

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


def get_data(path: str, categorical=()) -> dict:
    """Return the columns of a CSV file, or of a data set in scikit-learn: objects that are floats, or words."""
    if path in ("diabetes", "breast_cancer"):
        data = getattr(datasets, f"load_{path}")()
        target = data.target_names[data.target] if "target_names" in data else data.target
        return dict(zip(data.feature_names, data.data.T.astype(object)), target=target.astype(object))
    with open(path, newline="", encoding="utf-8") as file:
        columns = {name: np.array(values, object) for name, *values in zip(*csv.reader(file))}
    for name in columns.keys() - set(categorical):
        with contextlib.suppress(ValueError):  # words remain
            missing = np.isin(columns[name].astype(str), ["", "?", "NA"])
            columns[name] = np.where(missing, "nan", columns[name]).astype(float).astype(object)
    return columns


def make_preparation(columns: dict) -> compose.ColumnTransformer:
    """Return a transformer: standardizes numbers, replaces missing ones by the mean, and makes a column of each word."""
    words = [k for k, values in enumerate(columns.values()) if isinstance(values[0], str)]
    numbers = [k for k in range(len(columns)) if k not in words]
    standardize = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    one_hot = preprocessing.OneHotEncoder(handle_unknown="ignore")
    return compose.make_column_transformer((standardize, numbers), (one_hot, words), sparse_threshold=0)


def get_config(model: Model, train: list, held_out: list, args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of a training, which ends when the cost of held-out rows stops falling."""
    data = BatchData(DataFromList(train), min(32, len(train)))
    validation = BatchData(DataFromList(held_out, shuffle=False), len(held_out))
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    return config_class(
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


def train(prepare, x, y, num_classes: int, axes, name: str, args: argparse.Namespace) -> PredictConfig:
    """Fit the preparation and the model; a sixth of the rows decides when to stop. Return the best model."""
    logger.set_logger_dir(os.path.join(args.log_dir, name), action="k")
    fix_rng_seed(args.seed)
    held_out = np.random.RandomState(args.seed).permutation(len(y)) < len(y) / 6
    rows = np.float32(prepare.fit(x[~held_out]).transform(x))
    sizes = rows.shape[1], num_classes, float(y[~held_out].mean()), float(y[~held_out].std())
    parts = [list(zip(rows[part], np.float32(y[part]))) for part in (~held_out, held_out)]
    with tf.Graph().as_default():
        tf.set_random_seed(args.seed)
        trainer = SimpleTrainer()
        launch_train_with_config(get_config(Model(*sizes), *parts, args), trainer)
    axes.plot(*zip(*trainer.monitors.get_history("validation_cost")), label=name)
    best = SmartInit(os.path.join(args.log_dir, name, "min-validation_cost"))
    return PredictConfig(Model(*sizes), session_init=best, input_names=["row"], output_names=["prediction"])


def cross_validate(prepare, x, y, num_classes: int, axes, args: argparse.Namespace) -> None:
    """Train a model per fold, and print the mean score on the rows that it has not seen."""
    what, kind = ("AUC", "Classifier") if num_classes else ("R2", "Regressor")
    score = (
        (lambda y, p: metrics.roc_auc_score(np.eye(num_classes)[y], p)) if num_classes else metrics.r2_score
    )
    scores = {"network": [], "boosted trees": []}
    split = model_selection.StratifiedKFold if num_classes else model_selection.KFold
    for k, (rows, test) in enumerate(split(args.folds, shuffle=True, random_state=args.seed).split(x, y)):
        network = OfflinePredictor(train(prepare, x[rows], y[rows], num_classes, axes, f"fold{k}", args))
        seen, unseen = np.float32(prepare.transform(x[rows])), np.float32(prepare.transform(x[test]))
        scores["network"].append(score(y[test], network(unseen)[0]))
        if args.compare:
            trees = getattr(ensemble, "HistGradientBoosting" + kind)(random_state=args.seed).fit(
                seen, y[rows]
            )
            predicted = trees.predict_proba(unseen) if num_classes else trees.predict(unseen)
            scores["boosted trees"].append(score(y[test], predicted))
    for name in scores if args.compare else ["network"]:
        print(f"{name}: {what} {np.mean(scores[name]):.3f}, folds {np.round(scores[name], 3)}")


def predict(args: argparse.Namespace) -> None:
    """Write predictions.csv for the rows of a file. The exported model and columns.joblib suffice for this."""
    prepare, names, words, classes = joblib.load(os.path.join(args.log_dir, "columns.joblib"))
    columns = get_data(args.predict, words)
    rows = prepare.transform(np.stack([columns[name] for name in names], axis=1))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], os.path.join(args.log_dir, "model"))
        predicted = session.run("prediction:0", {"row:0": rows})
    predicted = np.array(classes)[predicted.argmax(axis=1)] if len(classes) else predicted
    np.savetxt(os.path.join(args.log_dir, "predictions.csv"), predicted, fmt="%s")


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
    parser.add_argument("--log-dir", default=os.path.join("train_log", "tabular"))
    args = parser.parse_args(argv)
    if args.predict:
        predict(args)
        return
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()
    columns = get_data(args.csv, args.categorical)
    y, classes = columns.pop(args.target), []
    if isinstance(y[0], str) or len(set(y)) == 2:
        classes, y = np.unique(y, return_inverse=True)
    x, y = np.stack(list(columns.values()), axis=1), y.astype(int if len(classes) else float)
    prepare, axes = make_preparation(columns), Figure().subplots()
    cross_validate(prepare, x, y, len(classes), axes, args)
    config = train(prepare, x, y, len(classes), axes, "all", args)
    ModelExporter(config).export_serving(os.path.join(args.log_dir, "model"), overwrite=True)
    words = [name for name, values in columns.items() if isinstance(values[0], str)]
    joblib.dump((prepare, list(columns), words, classes), os.path.join(args.log_dir, "columns.joblib"))
    axes.legend()
    axes.figure.savefig(os.path.join(args.log_dir, "curves.png"))


if __name__ == "__main__":
    main()
