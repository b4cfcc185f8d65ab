"""The folder that `tensorpack-lite run` puts on PYTHONPATH, so that Python imports its `sitecustomize` at the start."""
