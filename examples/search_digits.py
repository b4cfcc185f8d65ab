"""
A search for hyperparameters with Optuna: several training runs in one process or in several; bad ones are stopped early.

Shows: a callback that reports to Optuna and prunes; a graph, a directory and a seed for each training.
Expect: the best of 12 training runs has a validation error of about 0.02; a third of the training runs are pruned.

Needs: pip install "tensorpack_lite[search]". For several processes, start the same command with
`--storage sqlite:///search.db` in each: they share one study.
"""

from __future__ import annotations

from common import get_parser

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset


class Model(ModelDesc):
    """A network with one hidden layer, whose width and rate of dropout are searched for."""

    def __init__(self, rate: float, width: int, dropout: float) -> None:
        super().__init__()
        self.rate = rate
        self.width = width
        self.dropout = dropout

    def inputs(self):
        return [
            tf.TensorSpec([None, 8, 8], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        x = FullyConnected("fc0", image, self.width, activation=tf.nn.relu)
        x = Dropout(x, rate=self.dropout)
        logits = FullyConnected("fc1", x, 10)
        wrong = tf.logical_not(tf.nn.in_top_k(logits, label, 1))
        tf.cast(wrong, tf.float32, name="wrong")
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        return tf.identity(cost, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(self.rate)


class PruneTrial(Callback):
    """
    Reports a statistic to a trial of Optuna after each epoch, and stops training if Optuna gives the trial up.

    Put it behind the callback that computes the statistic. The other callbacks of the epoch still run.

    Args:
        trial: an `optuna.Trial`.
        statistic: the name of a scalar of `trainer.monitors`.

    Attributes:
        is_pruned: whether Optuna has given the trial up.
    """

    def __init__(self, trial, statistic: str) -> None:
        self.trial = trial
        self.statistic = statistic
        self.is_pruned = False

    def _trigger_epoch(self) -> None:
        self.trial.report(self.trainer.monitors.get_latest(self.statistic), self.epoch_num)
        self.is_pruned = self.trial.should_prune()

    def _before_epoch(self) -> None:
        if self.is_pruned:
            raise StopTraining("Optuna has pruned the trial")


def run_trial(trial, args) -> tuple:
    """Train once with the hyperparameters of a trial. Return the last validation error, and whether it was pruned."""
    model = Model(
        rate=trial.suggest_float("rate", 1e-4, 1e-1, log=True),
        width=trial.suggest_int("width", 8, 64, log=True),
        dropout=trial.suggest_float("dropout", 0.0, 0.6),
    )
    logger.set_logger_dir(f"{args.log_dir}/trial{trial.number:03}", action="b")
    fix_rng_seed(args.seed)
    pruning = PruneTrial(trial, "validation_error")
    with tf.Graph().as_default():
        tf.set_random_seed(args.seed)
        config = TrainConfig(
            model=model,
            data=QueueInput(BatchData(dataset.Digits("train", size=8), 64)),
            callbacks=[
                ModelSaver(),
                InferenceRunner(
                    BatchData(dataset.Digits("test", size=8, shuffle=False), 60),
                    ClassificationError("wrong"),
                ),
                pruning,
            ],
            steps_per_epoch=args.steps_per_epoch or None,  # None: all training images
            max_epoch=args.max_epoch,
        )
        trainer = SimpleTrainer()
        launch_train_with_config(config, trainer)
    return trainer.monitors.get_latest("validation_error"), pruning.is_pruned


def search(args) -> None:
    """Run the trials, and print the best one."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError('search_digits.py needs Optuna: pip install "tensorpack_lite[search]"') from error

    def objective(trial) -> float:
        error, is_pruned = run_trial(trial, args)
        if is_pruned:
            raise optuna.TrialPruned
        return error

    study = optuna.create_study(
        study_name="digits",
        storage=args.storage,
        load_if_exists=True,  # created by the first process
        sampler=optuna.samplers.TPESampler(seed=args.seed if args.storage is None else None),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
    )
    study.optimize(objective, n_trials=args.trials)

    states = [trial.state.name for trial in study.trials]
    best = study.best_trial
    print(f"{states.count('COMPLETE')} trials are complete, {states.count('PRUNED')} pruned.")
    print(f"The best is trial {best.number}, with an error of {best.value:.4f}: {best.params}")
    print(f"Compare them: tensorpack-lite report {args.log_dir}/* -o report.html")
    print(f"See the differences: tensorpack-lite diff {args.log_dir}/trial000 {args.log_dir}/trial{best.number:03}")


def main(argv=None) -> None:
    parser = get_parser(__doc__, "search_digits", max_epoch=8, has_resume=False)
    parser.add_argument("--trials", type=int, default=12, help="the number of training runs in this process")
    parser.add_argument("--storage", help="URL of Optuna's database, shared by all processes of a search")
    args = parser.parse_args(argv)
    logger.set_quiet(not args.verbose)
    search(args)


if __name__ == "__main__":
    main()
