"""WandbMonitor with the real wandb, offline: `tox -e monitors`."""

from __future__ import annotations

import contextlib
import sys
from unittest import mock

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.wandb_run import WandbMonitor
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.manifest.hyperparams import RecordHyperParams
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.state import StopTraining


def test_a_run_of_the_user(monkeypatch):
    """Scalars, images, texts and new hyper-parameters are sent to a given run, which is left open."""
    wandb = mock.Mock(Image=lambda image: image.shape, Html=lambda text: text)
    monkeypatch.setitem(sys.modules, "wandb", wandb)

    def put(self) -> None:
        self.trainer.monitors.put_scalar("error", 0.5)
        self.trainer.monitors.put_image("many", np.zeros([2, 4, 3, 1]))
        self.trainer.monitors.put_text("said", "a<b")

    existing = mock.Mock(config={"lr": 0.1})
    callbacks = [RecordHyperParams(lr=0.5, depth=3), CallbackFactory(trigger=put)]
    run(CountingTrainer(), callbacks, [WandbMonitor(run=existing)], epochs=1)

    assert {"lr": 0.1, "depth": 3} == existing.config
    assert [
        mock.call.log({"many": [(4, 3, 1), (4, 3, 1)]}, step=2),
        mock.call.log({"said": ["<pre>a&lt;b</pre>"]}, step=2),
        mock.call.log({"error": 0.5, "epoch_num": 1}, step=2),
    ] == existing.method_calls


class TestARunOfItsOwn:
    """With a fake wandb; TestARun uses the real one."""

    @pytest.fixture
    def wandb(self, monkeypatch):
        made = mock.Mock()
        monkeypatch.setitem(sys.modules, "wandb", made)
        return made

    def test_begin_and_end(self, wandb, log_dir):
        """The run is created with the arguments in the logger's directory and finished with code 0."""
        monitor = WandbMonitor("digits", config={"lr": 0.1}, mode="offline")
        put = CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar("error", 0.5))
        run(CountingTrainer(), [put], [monitor], epochs=1)

        wandb.init.assert_called_once_with(project="digits", name=None, config={"lr": 0.1}, mode="offline", dir=log_dir)
        assert wandb.init.return_value is monitor.run
        assert [
            mock.call.log({"error": 0.5, "epoch_num": 1}, step=2),
            mock.call.finish(exit_code=0),
        ] == monitor.run.method_calls

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (StopTraining("enough"), 0),
            (tf.errors.OutOfRangeError(None, None, "no more data"), 0),
            (RuntimeError("mine"), 1),
            (KeyboardInterrupt(), 255),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_the_outcome(self, wandb, log_dir, error, code):
        """A stopped training finishes with code 0, a failed one with 1, and an interrupted one with 255."""
        end = CallbackFactory(trigger=mock.Mock(side_effect=error))
        monitor = WandbMonitor("digits")
        with contextlib.suppress(RuntimeError, KeyboardInterrupt):
            run(CountingTrainer(), [end], [monitor])
        assert mock.call.finish(exit_code=code) == monitor.run.method_calls[-1]

    def test_in_an_except_block(self, wandb, log_dir):
        """An exception that the caller is handling while it trains is not this training's error."""
        monitor = WandbMonitor("digits")
        try:
            raise KeyError("of the caller")
        except KeyError:
            run(CountingTrainer(), [], [monitor])
        assert mock.call.finish(exit_code=0) == monitor.run.method_calls[-1]

    def test_images_before_it_begins(self, wandb):
        """Images that are reported before the run exists are dropped."""
        WandbMonitor().process_image("picture", np.zeros([1, 2, 2, 3]))
        assert [] == wandb.Image.mock_calls


@pytest.mark.slow
class TestARun:
    @pytest.fixture
    def wandb(self, tmp_path, monkeypatch):
        """Offline, and nothing outside of the test's directory."""
        for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
            monkeypatch.setenv(name, str(tmp_path))
        monkeypatch.setenv("WANDB_SILENT", "true")
        monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")  # its telemetry has threads that never end
        wandb = pytest.importorskip("wandb", reason="wandb is not installed; tox -e monitors has it")
        yield wandb
        wandb.teardown()

    def test_offline(self, wandb, log_dir):
        """An offline run has its scalars, images and configuration in the logger's directory."""

        def put(self) -> None:
            self.trainer.monitors.put_scalar("error", self.global_step * 0.5)
            self.trainer.monitors.put_image("picture", np.zeros([4, 4, 3], "uint8"))

        def look(self) -> None:
            seen.update(monitor.run.summary)

        seen = {}
        monitor = WandbMonitor("digits", name="first", config={"lr": 0.1}, mode="offline")
        run(CountingTrainer(), [CallbackFactory(trigger=put, after_train=look)], [monitor])

        # wandb holds a step back until the next one comes or the run is finished
        assert (1.0, 1, 2) == (seen["error"], seen["epoch_num"], seen["_step"])
        assert 1 == seen["picture"]["count"]
        assert ("first", 0.1) == (monitor.run.name, monitor.run.config["lr"])
        assert monitor.run.dir.startswith(log_dir)
