"""
Hangs: a thread that notices when a training does not move, and reports what each thread waits for.

**In:** a trainer, the stacks of its threads and workers, and the records of its pipeline.
**Out:** a report in the log and in `hang-<date>.txt`; answers to `tensorpack-lite where`.
**Next:** `train/defaults.py`, which adds the detector to each training.
"""
