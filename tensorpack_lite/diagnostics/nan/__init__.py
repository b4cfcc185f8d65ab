"""
NaN: the search for the operation that made the first value that is not finite, and for steps whose cost jumps.

**In:** the values of a step, and the batch that it used.
**Out:** a sentence that names the operation, and files with which `tensorpack-lite nan-replay` repeats the step.
**Next:** `callbacks`, which has `TerminateOnNaN` and `LossSpike` among its names.
"""
