"""
Old scripts, unmodified: `tensorpack-lite run` shows a script of TensorFlow 1 and tensorpack the names that it
was written for.

**In:** a script, which imports `tensorflow` and `tensorpack`.
**Out:** the same script, running on the installed TensorFlow with tensorpack_lite.
**Next:** the script's own trainer.

The command (`cli/run.py`) sets environment variables and replaces itself with plain Python, so that
`sys.argv`, signals, exit codes and spawned processes are those of Python. At the start of each such process,
Python imports `startup/sitecustomize.py`, which watches the imports of `tensorflow` and `tensorpack`. The
script gets `view.py`'s module for `tensorflow`, and tensorpack_lite's modules for `tensorpack`. Nothing here
is active without the command.
"""
