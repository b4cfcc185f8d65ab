"""TensorFlow's look-ups by name, as under `tensorpack-lite run`."""

from __future__ import annotations

from tensorpack_lite.compat import TF_VERSION, tensorflow, value_names
from tensorpack_lite.compat import tfv1 as tf

__all__ = ["install_value_names"]


def install_value_names(monkeypatch) -> None:
    """Make names of variables mean values until the end of the test."""
    session = value_names._session
    monkeypatch.setattr(tf.Graph, "get_tensor_by_name", tf.Graph.get_tensor_by_name)
    monkeypatch.setattr(session.BaseSession, "run", session.BaseSession.run)
    monkeypatch.setattr(session, "_REGISTERED_EXPANSIONS", [*session._REGISTERED_EXPANSIONS])
    for module in (tf, tensorflow) if TF_VERSION < (2, 0) else (tf,):
        for name in ("gradients", "assign", "assign_add", "assign_sub"):
            monkeypatch.setattr(module, name, getattr(module, name))
    value_names.install()
