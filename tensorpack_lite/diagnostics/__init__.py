"""
Diagnostics: everything that explains a training run. Training also works without it.

**In:** a training, whose objects these packages examine; or the files that it has written.
**Out:** sentences, in the log, in reports of hangs, in the manifest, and in the output of commands.
**Next:** `train/defaults.py`, which adds them to a training, and `cli`, which has their commands.

`lint`, `speed`, `hangs`, `nan`, `gpu`, `manifest`, `diff`, `data_check`, `model_summary` and `probe` each have a folder. The
packages that carry a training do not import this one, besides `train/defaults.py` and the list of names in `callbacks`.
"""
