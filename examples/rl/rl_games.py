"""
Shared code of the examples in this folder: games of gymnasium, a network that looks at them, training and evaluation.

Shows: a callback that plays games with a predictor after each epoch, and draws a curve of the scores.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import os

import gymnasium
import numpy as np
from gymnasium import wrappers

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.common import get_global_step_var

ATARI = "ALE/"  # the names of Atari games begin with it
HISTORY = 4  # frames in the state of an Atari game
FRAME_SKIP = 4  # frames of an Atari game for which an action is repeated
REWARD_SCALE = 0.05  # of other games, so that the values of states are about 1, not 100


def make_env(name: str, is_training: bool = False, render_mode: str | None = None) -> gymnasium.Env:
    """Return an environment with states [1, D] or, for Atari, [4, 84, 84]; the newest observation is the last row."""
    stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack  # before gymnasium 1.0
    options = {"render_mode": render_mode, "disable_env_checker": True}
    if name.startswith(ATARI):
        try:
            import ale_py
        except ImportError as error:
            raise ImportError(f"{name}: needs ale-py (Python >= 3.9). Run: pip install ale-py") from error
        gymnasium.register_envs(ale_py)
        env = gymnasium.make(name, frameskip=1, **options)
        # gray, 84 x 84, the maximum of the last two skipped frames, up to 30 idle frames at the start
        env = stack(wrappers.AtariPreprocessing(env, frame_skip=FRAME_SKIP), HISTORY)
        return wrappers.TransformReward(env, np.sign) if is_training else env
    env = gymnasium.make(name, **options)
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise ValueError(f"{name}: the actions are {env.action_space} (expected Discrete).")
    env = stack(wrappers.FlattenObservation(env), 1)
    return wrappers.TransformReward(env, lambda reward: REWARD_SCALE * reward) if is_training else env


class Game:
    """
    A game that restarts by itself.

    The final state of an episode is a state like the others, with `last` set: whatever action follows starts a new
    episode. `terminal` is False if a time limit ended the episode: the rewards that would have followed still count.

    Args:
        name: an id of gymnasium.
        seed: the seed of all episodes.
        is_training: whether to clip Atari's rewards to -1, 0 and 1, and to scale those of other games.
        render_mode: see `gymnasium.make`.
    """

    def __init__(
        self, name: str, seed: int, is_training: bool = False, render_mode: str | None = None
    ) -> None:
        self.env = make_env(name, is_training, render_mode)
        self.shape = self.env.observation_space.shape
        self.dtype = "uint8" if name.startswith(ATARI) else "float32"
        self.num_actions = int(self.env.action_space.n)
        self.restart(seed)

    def restart(self, seed: int | None = None) -> None:
        """Start an episode."""
        self.state = np.asarray(self.env.reset(seed=seed)[0], self.dtype)
        self.last = self.terminal = False
        self.score = 0.0

    def step(self, action: int) -> float:
        """Take an action and return its reward."""
        if self.last:
            self.restart()
            return 0.0
        state, reward, self.terminal, is_cut_off, _ = self.env.step(int(action))
        self.state = np.asarray(state, self.dtype)
        self.last = self.terminal or is_cut_off
        self.score += float(reward)
        return float(reward)


def features(state: tf.Tensor) -> tf.Tensor:
    """Map states to features [N, F]: two hidden layers or, for Atari, the network of Mnih et al. 2013 and 2016."""
    with argscope([Conv2D, FullyConnected], activation=tf.nn.relu), argscope(Conv2D, padding="VALID"):
        if state.dtype != tf.uint8:
            return FullyConnected("fc1", FullyConnected("fc0", state, 128), 128)
        image = tf.transpose(tf.cast(state, tf.float32) / 255, [0, 2, 3, 1])
        image = Conv2D("conv0", image, 16, kernel_size=8, strides=4)
        image = Conv2D("conv1", image, 32, kernel_size=4, strides=2)
        return FullyConnected("fc0", image, 256)


class GameModel(ModelDesc):
    """Base class of the models. The learning rate decreases linearly to 0, so that the last policies are similar."""

    def __init__(self, args: argparse.Namespace, game: Game) -> None:
        super().__init__()
        self.args, self.game = args, game

    def state_spec(self, name: str) -> tf.TensorSpec:
        return tf.TensorSpec([None, *self.game.shape], self.game.dtype, name)

    def optimizer(self):
        progress = tf.cast(get_global_step_var(), tf.float32)
        progress /= self.args.steps_per_epoch * self.args.max_epoch
        adam = tf.train.AdamOptimizer(self.args.learning_rate * tf.maximum(1 - progress, 0.0), epsilon=1e-5)
        return optimizer.apply_grad_processors(adam, [gradproc.GlobalNormClip(1)])


def play(games: list, predictor) -> list:
    """Play one episode in each game with the actions of the highest scores; return the sums of rewards."""
    for game in games:
        game.restart()
    running = games
    while running:
        actions = predictor(np.stack([game.state for game in running]))[0].argmax(1)
        for game, action in zip(running, actions):
            game.step(action)
        running = [game for game in running if not game.last]
    return [game.score for game in games]


class Evaluation(Callback):
    """Play one episode in each game after each epoch, report the scores, and draw them to `scores.png`."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.games = [Game(args.env, 1000 * args.seed + i) for i in range(args.eval_games)]

    def _setup_graph(self) -> None:
        self.predictor = self.trainer.get_predictor(["state"], ["scores"])

    def _trigger_epoch(self) -> None:
        scores = play(self.games, self.predictor)
        self.trainer.monitors.put_scalar("mean_score", np.mean(scores))
        self.trainer.monitors.put_scalar("min_score", np.min(scores))
        self._draw(f"{logger.get_logger_dir()}/scores.png")

    def _draw(self, path: str) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.8, 3), tight_layout=True)
        axis = figure.subplots()
        for name in ("mean_score", "min_score"):
            axis.plot(*zip(*self.trainer.monitors.get_history(name)), label=name)
        axis.set_xlabel("updates")
        axis.legend()
        figure.savefig(path)


def record_game(args: argparse.Namespace, model: ModelDesc) -> None:
    """Play one game with the last checkpoint, and write it to `game.gif`."""
    from PIL import Image

    init = SmartInit(tf.train.latest_checkpoint(args.log_dir))
    config = PredictConfig(model=model, session_init=init, input_names=["state"], output_names=["scores"])
    predictor, game = OfflinePredictor(config), Game(args.env, args.seed, render_mode="rgb_array")
    frames = [game.env.render()]
    while not game.last:
        game.step(predictor(game.state[None])[0].argmax())
        frames.append(game.env.render())
    height, width = frames[0].shape[:2]
    images = [Image.fromarray(frame).resize((240, 240 * height // width)) for frame in frames[::2]]
    path = os.path.join(args.log_dir, "game.gif")
    images[0].save(path, save_all=True, append_images=images[1:], duration=40, loop=0)
    print(f"A score of {game.score:g} after {len(frames) - 1} steps; see {path}")


def train_or_play(args, model: ModelDesc, data: DataFlow, callbacks: list, actions_per_update: int) -> None:
    """Train, or with --play record a game. The data depends on the current network."""
    if args.play:
        record_game(args, model)
        return
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    frames = actions_per_update * (FRAME_SKIP if args.env.startswith(ATARI) else 1)
    config = config_class(
        model=model,
        data=FeedInput(data),  # a QueueInput would read ahead, and train with actions of older networks
        callbacks=[
            *callbacks,
            ThroughputTracker(frames),
            Evaluation(args),
            ModelSaver(),
            MaxSaver("mean_score"),
        ],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())


def get_args(doc: str | None, name: str, small: dict, atari: dict, argv=None) -> argparse.Namespace:
    """Parse the options: `small` are the defaults for all games but Atari's. Set the seeds and the log directory."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1", help="id of gymnasium; the actions must be discrete")
    parser.add_argument("--play", action="store_true", help="write a game with the last checkpoint as GIF")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", name))
    for key, value in small.items():
        text = f"default: {value}; for Atari {atari[key]}"
        parser.add_argument("--" + key.replace("_", "-"), type=type(value), help=text)
    args = parser.parse_args(argv)
    for key, value in (atari if args.env.startswith(ATARI) else small).items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    if not args.play:
        logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    return args
