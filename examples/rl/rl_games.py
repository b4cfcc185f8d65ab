"""
Games of gymnasium for the examples in this folder: their states, rewards and episodes.

Expect: this is a module for the other examples; run one of those.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import wrappers

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

    def __init__(self, name: str, seed: int, is_training: bool = False, render_mode: str | None = None) -> None:
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
