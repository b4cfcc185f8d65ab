"""
Speed: which part of a training limits its speed, and what would make it faster.

**In:** the counts and times of a pipeline's stages, and the times of runs.
**Out:** a verdict at the end of each epoch, and the table of `tensorpack-lite data-check`.
**Next:** `train/defaults.py`, which adds `Speed` to each training.

Start reading at `bottleneck.py::advise`, which is the model.
"""
