"""Address: ModelDesc lives in graph_builder/model_desc.py."""

from ..graph_builder.model_desc import ModelDesc, ModelDescBase

__all__ = ["ModelDesc", "ModelDescBase"]
