"""The command `rehearse` and `TrainConfig(rehearse=True)`: what they go through, their errors, and what they leave unchanged."""

from __future__ import annotations

import html

import pytest
from fakes.commands import python_runner

from tensorpack_lite.diagnostics.probe.rehearse import estimate, show_results
from tensorpack_lite.utils.notes import read_notes

SCRIPT = """
class Note(Callback):
    def _note(self, text):
        note(f"{text} {self.epoch_num}.{self.global_step}")
    def _before_train(self):
        self._note("resumed" if self.trainer.loop.is_resumed else "begun")
    def _trigger_epoch(self):
        self._note("epoch")
    def _after_train(self):
        self._note("end")

def fail(callback):
    if callback.trainer.loop.is_resumed == ("resume" in sys.argv):
        raise KeyError("a mistake in a callback")

data = BatchData(DataFromList([[np.ones(8, "float32"), np.int32(k % 3)] for k in range(400)], shuffle=False), 4)
validation = MapData(data, lambda dp: [dp[0][:, :7] if "validation" in sys.argv else dp[0], dp[1]])
logger.set_logger_dir("log", action="k")
callbacks = [
    ModelSaver(checkpoint_dir="elsewhere" if "elsewhere" in sys.argv else None),
    PeriodicTrigger(InferenceRunner(validation, ScalarStats("cost")), every_k_epochs=10),
    MinSaver("validation_cost", checkpoint_dir="elsewhere" if "elsewhere" in sys.argv else None),
    Note(),
]
if "none" in sys.argv:
    callbacks = [Note()]
if "fail" in sys.argv:
    callbacks.append(CallbackFactory(trigger=fail))
config = (AutoResumeTrainConfig if "auto" in sys.argv else TrainConfig)(
    model=Model(), data=QueueInput(data) if "queue" in sys.argv else FeedInput(data), callbacks=callbacks,
    steps_per_epoch=100, max_epoch=30 if "before" not in sys.argv else 1, rehearse="before" in sys.argv,
)
if "stop" in sys.argv:
    raise ValueError("a mistake of the script")
launch_train_with_config(config, SimpleTrainer())
note("behind the training")
"""

EXPORT = """
from tensorpack_lite.predict.export import ModelExporter

if "mistake" in sys.argv:
    raise ValueError("a mistake behind the training")
if "again" in sys.argv:
    with tf.Graph().as_default():
        launch_train_with_config(TrainConfig(model=Model(), data=FeedInput(data)), SimpleTrainer())
if "leave" not in sys.argv:
    exporter = ModelExporter(PredictConfig(
        model=Model(), session_init=SmartInit("log/checkpoint"), input_names=["x"],
        output_names=["gone" if "wrong" in sys.argv else "fc/output"],
    ))
    exporter.export_compact("model.pb")
    exporter.export_serving("log/serving/1")
    note("behind the exports")
"""


@pytest.fixture
def python(tmp_path):
    """Return a function that runs Python in a directory with a script; it returns the exit code, the output and the notes."""
    return python_runner(tmp_path, SCRIPT)


@pytest.fixture
def rehearse(python):
    """Return a function that rehearses the script."""
    return lambda *arguments: python("-m", "tensorpack_lite", "rehearse", "train.py", *arguments)


WHOLE = [
    *("begun 0.0", "epoch 1.2", "epoch 2.4", "end 2.4"),
    *("resumed 2.4", "epoch 3.6", "end 3.6"),
]


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("auto", "queue"), ("elsewhere",)])
def test_all_parts(rehearse, tmp_path, arguments):
    """Two epochs of two steps, validation in each, a resumed epoch and a prediction work; no file of a training is written."""
    code, output, notes = rehearse(*arguments)
    assert 0 == code, output
    assert WHOLE == notes
    for part in ("steps of epoch 2", "steps of resumed epoch 3", "predictor of the checkpoint"):
        assert f"\n{part}" in output
    assert "FAILED" not in output
    assert "Epoch 1 of" not in output  # a line of a quiet log, as the training will have it
    assert "An epoch: 100 steps of " in output
    assert "The training: 30 epochs, about " in output
    assert "Disk: 10 checkpoints of " in output
    assert not (tmp_path / "elsewhere").exists()
    assert [] == list((tmp_path / "log").iterdir())


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("validation",), "callbacks at the end of epoch 1: PeriodicTrigger-InferenceRunner "),
        (("fail",), "callbacks at the end of epoch 1: CallbackFactory "),
        (("fail", "resume"), "callbacks at the end of epoch 3: CallbackFactory "),
    ],
)
def test_a_part_that_fails(rehearse, arguments, part):
    """An error in validation, in a callback, or after a resume gives exit code 1, and the table shows where it was."""
    code, output, notes = rehearse(*arguments)
    assert 1 == code, output
    assert f"\n{part}" in output
    assert "FAILED" in output
    assert "behind the training" not in notes


@pytest.fixture
def rehearse_exports(tmp_path):
    """Return a function that rehearses a script that exports its model after the training."""
    python = python_runner(tmp_path, SCRIPT + EXPORT)
    return lambda *arguments: python("-m", "tensorpack_lite", "rehearse", "train.py", *arguments)


@pytest.mark.nightly
@pytest.mark.slow
def test_exports(rehearse_exports, tmp_path):
    """The exports after the training are made from the checkpoint of the rehearsal, into a temporary directory, and end the script."""
    code, output, notes = rehearse_exports()
    assert 0 == code, output
    assert [*WHOLE, "behind the training"] == notes
    for part in ("export_compact to model.pb ", "export_serving to log/serving/1 "):
        assert f"\n{part}" in output
    assert "FAILED" not in output
    assert {"train.py", "notes", "log"} == {path.name for path in tmp_path.iterdir()}
    assert [] == list((tmp_path / "log").iterdir())


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("wrong", "export_compact to model.pb: KeyError: "),
        ("mistake", "the script after its training: its error is above"),
    ],
)
def test_an_export_that_fails(rehearse_exports, argument, text):
    """An error in an export, or between training and export, gives exit code 1, and the table shows where it was."""
    code, output, _ = rehearse_exports(argument)
    assert 1 == code, output
    assert text in output
    assert "FAILED" in output
    if argument == "mistake":
        assert "ValueError: a mistake behind the training" in output


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("argument", ["leave", "again"])
def test_exports_that_are_not_reached(rehearse_exports, argument):
    """A script that ends before its exports, or trains once more, has been rehearsed until there."""
    code, output, notes = rehearse_exports(argument)
    assert 0 == code, output
    assert "behind the exports" not in notes
    assert "\npredictor of the checkpoint" in output


@pytest.mark.slow
def test_without_a_saver(rehearse):
    """A script that saves nothing is not resumed, which the output says."""
    code, output, notes = rehearse("none")
    assert 0 == code, output
    assert WHOLE[:4] == notes
    assert "Not rehearsed: a resume, because no ModelSaver has saved a checkpoint." in output


@pytest.mark.nightly
@pytest.mark.slow
def test_a_script_that_fails_before(rehearse):
    """A script that fails before its training gives exit code 2."""
    code, output, _ = rehearse("stop")
    assert 2 == code, output
    assert "tensorpack-lite rehearse: train.py failed with exit code 1.\n" in output


@pytest.mark.nightly
@pytest.mark.slow
def test_before_a_training(python, tmp_path):
    """With rehearse=True, the script is rehearsed before it trains; the training is as without."""
    code, output, notes = python("train.py", "before")
    assert 0 == code, output
    assert [*WHOLE, "begun 0.0", "epoch 1.100", "end 1.100", "behind the training"] == notes
    assert (tmp_path / "log" / "checkpoint").exists()
    (note,) = [one for one in read_notes(str(tmp_path / "log")) if one["kind"] == "rehearsal"]
    assert note["text"].startswith("All parts of the training have worked in a rehearsal. An epoch: 100 steps of ")
    assert "steps of resumed epoch 3" in [part["part"] for part in note["parts"]]
    text = html.unescape((tmp_path / "log" / "report.html").read_text())
    assert "steps of resumed epoch 3" in text
    assert "Peak memory" in text


@pytest.mark.nightly
@pytest.mark.slow
def test_a_training_whose_rehearsal_fails(python, tmp_path):
    """If the rehearsal fails, the training does not start, and the error shows where to look."""
    code, output, notes = python("train.py", "before", "fail")
    assert 1 == code, output
    assert "RuntimeError: The rehearsal has failed, so training does not start." in output
    assert ["begun 0.0", "epoch 1.2", "end 1.2"] == notes
    assert not (tmp_path / "log" / "checkpoint").exists()


FACTS = {
    "steps_per_epoch": 50,
    "epochs": 20,
    "steps": [3.0, 0.2, 0.1, 0.4],
    "callbacks": [["ModelSaver", 1.0], ["InferenceRunner", 0.5]],
    "validations": {"InferenceRunner": 40},
    "memory": 500e6,
    "checkpoint": {"directory": "x", "bytes": 30e6, "kept": 10},
}


def test_the_estimate():
    """An epoch takes the fastest step times their number, the callbacks, and validation on all of its datapoints."""
    # 50 * 0.1 + 1 + 0.5 * 40 / 2 = 16
    assert [
        "An epoch: 50 steps of 0.1 s and callbacks, about 16 seconds.",
        "The training: 20 epochs, about 5 minutes 20 seconds.",
        "Memory of this process: 500 MB at its peak.",
        "Disk: 10 checkpoints of 30.0 MB, 300 MB.",
    ] == estimate(FACTS)


def test_an_endless_training():
    """A training without a last epoch has no estimate of its time, and fewer epochs than kept checkpoints need less disk."""
    sentences = estimate({**FACTS, "epochs": 99_999})
    assert not any(line.startswith("The training") for line in sentences)
    assert "Disk: 3 checkpoints of 30.0 MB, 90 MB." in estimate({**FACTS, "epochs": 3})
    assert [] == estimate({})


def test_the_table():
    """Each part has its result and seconds; an error is repeated below, and nothing is estimated then."""
    rows = [["graph of the callbacks", 1.234, ""], ["steps of epoch 1", 0.5, "ValueError: x"]]
    lines = show_results([{"rows": rows, "facts": FACTS}]).splitlines()
    assert ["graph", "of", "the", "callbacks", "works", "1.23"] == lines[2].split()
    assert ["steps", "of", "epoch", "1", "FAILED", "0.50"] == lines[3].split()
    assert ["steps of epoch 1: ValueError: x"] == lines[4:]
