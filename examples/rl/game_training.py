"""
Options, training and evaluation of the examples in this folder.

Shows: a callback that plays games with a predictor after each epoch, and draws a curve of the scores.
Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from rl_games import ATARI, FRAME_SKIP, Game

from tensorpack_lite import *

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common

EVALUATION_SEED = 1_000_000  # far from those of the games in training


def play(games: list, predictor) -> list:
    """Play one episode in each game with the actions of the highest scores; return the sums of rewards."""
    for game in games:
        game.restart()
    running = games
    while running:
        states = np.stack([game.state for game in running])
        scores = predictor(states)[0]  # [games, actions]
        actions = scores.argmax(axis=1)
        for game, action in zip(running, actions):
            game.step(action)
        running = [game for game in running if not game.last]
    return [game.score for game in games]


def make_evaluation_games(args: argparse.Namespace) -> list:
    """Return games that always begin in the same states, whatever the seed of the training is."""
    return [Game(args.env, EVALUATION_SEED + i) for i in range(args.eval_games)]


def choose_at_random(num_actions: int):
    """Return a function like a predictor, for comparison."""
    rng = np.random.RandomState(0)
    return lambda states: [rng.rand(len(states), num_actions)]


def follow_pole(states: np.ndarray) -> list:
    """Push the cart of CartPole in the direction in which the pole leans and falls: a rule without learning."""
    _, _, angle, velocity = states[:, 0].T  # of the pole; the first two are those of the cart
    falls_right = angle + velocity  # [games]
    return [np.stack([-falls_right, falls_right], axis=1)]  # scores of the actions "left" and "right"


class Evaluation(Callback):
    """Play one episode in each game after each epoch, report the scores, and draw them to `scores.png`."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.games = make_evaluation_games(args)

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
        axes = figure.subplots()
        for name in ("mean_score", "min_score"):
            updates, scores = zip(*self.trainer.monitors.get_history(name))
            axes.plot(updates, scores, label=name)
        axes.set(xlabel="updates", ylabel=f"score of {len(self.games)} games")
        axes.legend()
        figure.savefig(path)


def record_game(args: argparse.Namespace, model: ModelDesc) -> None:
    """Play one game with the last checkpoint, and write it to `game.gif`."""
    from PIL import Image

    config = PredictConfig(
        model=model,
        session_init=SmartInit(common.find_checkpoint(args.log_dir)),
        input_names=["state"],
        output_names=["scores"],
    )
    predictor = OfflinePredictor(config)
    game = Game(args.env, args.seed, render_mode="rgb_array")
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
    frames = actions_per_update * (FRAME_SKIP if args.env.startswith(ATARI) else 1)
    config = common.get_config_class(args)(
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
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    report(args, trainer)


def report(args: argparse.Namespace, trainer: Trainer) -> None:
    """Print the mean score, and that of simple rules in the same games."""
    figures = {"network": trainer.monitors.get_latest("mean_score")}
    games = make_evaluation_games(args)
    if args.env.startswith("CartPole"):
        figures["a rule: push to where the pole falls"] = float(np.mean(play(games, follow_pole)))
        games = make_evaluation_games(args)
    figures["random actions"] = float(np.mean(play(games, choose_at_random(games[0].num_actions))))
    title = f"mean score of {len(games)} games of {args.env}"
    common.print_summary(args, title, figures, {"scores.png": "scores after each epoch"})


def get_args(doc: str | None, name: str, small: dict, atari: dict, argv=None) -> argparse.Namespace:
    """Parse the options: `small` are the defaults for all games but Atari's. Set the seeds and the log directory."""
    parser = common.get_parser(doc, name, max_epoch=0)
    parser.add_argument("--env", default="CartPole-v1", help="id of gymnasium; the actions must be discrete")
    parser.add_argument("--play", action="store_true", help="write a game with the last checkpoint as GIF")
    parser.set_defaults(max_epoch=None, steps_per_epoch=None)
    for key, value in small.items():
        if key not in ("max_epoch", "steps_per_epoch"):
            text = f"default: {value}; for Atari {atari[key]}"
            parser.add_argument("--" + key.replace("_", "-"), type=type(value), help=text)
    args = parser.parse_args(argv)
    for key, value in (atari if args.env.startswith(ATARI) else small).items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    if not args.play:
        common.start(args)
    return args
