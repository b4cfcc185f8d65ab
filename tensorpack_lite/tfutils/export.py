"""A trained model as a file for others to serve: a frozen graph, or a SavedModel."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ..compat import ensure_graph_mode, private
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.errors import type_error
from .common import get_tensors_by_names
from .placeholder import build_or_reuse_placeholder
from .tower.context import PredictTowerContext

__all__ = ["ModelExporter"]

_NEEDED = (
    "tower_func",
    "input_signature",
    "input_names",
    "output_names",
    "session_init",
    "_maybe_create_graph",
)


class ModelExporter:
    """
    Write a model in a form that is served without this library.

    The model is built in inference mode, in a tower without name, and its variables are loaded; each export does so anew.

    Args:
        config: a `PredictConfig`. Its `session_init` must give every variable a value. `input_names` and `output_names` may
            be any tensors of the graph.

    Raises:
        TypeError: `config` is no PredictConfig.
        KeyError: in an export: a name is not in the graph; names the nearest ones.
        ValueError: in an export: `session_init` leaves variables without a value.

    Example:
        >>> exporter = ModelExporter(PredictConfig(
        ...     model=Model(), session_init=SmartInit("train_log/checkpoint"),
        ...     input_names=["image"], output_names=["probability"]))
        >>> exporter.export_compact("model.pb")
        >>> exporter.export_serving("serving/1")

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(self, config: Any) -> None:
        if not all(hasattr(config, name) for name in _NEEDED):
            raise type_error("ModelExporter", "a PredictConfig", config)
        self.config = config

    def export_compact(self, filename: str, optimize: bool = True, toco_compatible: bool = False) -> None:
        """
        Write a frozen graph: what the outputs need, with the variables as constants, and nothing else.

        Args:
            filename: of the file, a binary `GraphDef`; replaced if it exists.
            optimize: also take out what only training needs, and fold batch normalization into convolutions.
            toco_compatible: keep to operations that TensorFlow Lite's converter knows.

        Raises:
            ValueError: `toco_compatible` without `optimize`.

        Example:
            >>> graph_def = tf.GraphDef()
            >>> graph_def.ParseFromString(open("model.pb", "rb").read())
            >>> tf.import_graph_def(graph_def, name="")
            >>> sess.run("probability:0", {"image:0": image})
        """
        if toco_compatible and not optimize:
            raise ValueError("ModelExporter.export_compact: toco_compatible=True needs optimize=True.")
        with self._model() as (sess, inputs, outputs):
            graph_def = tf.graph_util.convert_variables_to_constants(
                sess, sess.graph.as_graph_def(), _op_names(outputs)
            )
        if optimize:
            there = {node.name for node in graph_def.node}
            inputs = [tensor for tensor in inputs if tensor.op.name in there]
            graph_def = private.optimize_for_inference(
                graph_def,
                _op_names(inputs),
                _op_names(outputs),
                [tensor.dtype.as_datatype_enum for tensor in inputs],
                toco_compatible,
            )
        with tf.gfile.GFile(filename, "wb") as file:
            file.write(graph_def.SerializeToString(deterministic=True))
        logger.info("Frozen graph of %d nodes written to %s.", len(graph_def.node), filename)

    def export_serving(
        self,
        filename: str,
        tags: Sequence[str] | None = None,
        signature_name: str = "prediction_pipeline",
    ) -> None:
        """
        Write a SavedModel, as TensorFlow Serving and `tf.saved_model.load` take it.

        Its signature names inputs and outputs as the graph does, with the index: `"image:0"`.

        Args:
            filename: of the directory; it must not exist.
            tags: of the graph in it; None means those of serving (`"serve"`).
            signature_name: of its only signature.

        Raises:
            FileExistsError: there is something at `filename`.
            TypeError: `tags` is one string.

        Example:
            >>> predict = tensorflow.saved_model.load("serving/1").signatures["prediction_pipeline"]     # TF 2
            >>> predict(**{"image:0": tensorflow.constant(image)})["probability:0"]
        """
        tags = [tf.saved_model.tag_constants.SERVING] if tags is None else tags
        if isinstance(tags, str):
            raise type_error(
                "ModelExporter.export_serving: tags", "a list of strings", tags, f"Write [{tags!r}]."
            )
        if tf.gfile.Exists(filename):
            raise FileExistsError(
                f"ModelExporter.export_serving: {filename} exists. Remove it, or export next to it, e.g. to "
                f"{os.path.join(filename, '1')}."
            )
        with self._model() as (sess, inputs, outputs):
            signature = tf.saved_model.signature_def_utils.build_signature_def(
                inputs=_tensor_infos(inputs),
                outputs=_tensor_infos(outputs),
                method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME,
            )
            builder = tf.saved_model.builder.SavedModelBuilder(filename)
            builder.add_meta_graph_and_variables(
                sess,
                list(tags),
                signature_def_map={signature_name: signature},
                main_op=_tables_initializer(),
                clear_devices=True,
                strip_default_attrs=True,  # so that an older TensorFlow can read it
            )
            builder.save()
        logger.info("SavedModel written to %s.", filename)

    @contextmanager
    def _model(self) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Build the model and load its variables; yields the session, the inputs and the outputs."""
        ensure_graph_mode()
        config = self.config
        with config._maybe_create_graph().as_default():
            placeholders = [build_or_reuse_placeholder(spec) for spec in config.input_signature]
            with PredictTowerContext(""):
                config.tower_func(*placeholders)
            inputs = get_tensors_by_names(config.input_names)
            outputs = get_tensors_by_names(config.output_names)
            config.session_init._setup_graph()
            unset = tf.report_uninitialized_variables(tf.global_variables())
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
                config.session_init._run_init(sess)
                _refuse_unset(sess.run(unset))
                yield sess, inputs, outputs


def _refuse_unset(names: Sequence[bytes]) -> None:
    if len(names):
        missing = ", ".join(sorted(name.decode() for name in names))
        raise ValueError(
            f"ModelExporter: session_init leaves these variables without a value: {missing}. Give PredictConfig a "
            "session_init that has them all, e.g. SmartInit('train_log/checkpoint')."
        )


def _op_names(tensors: Sequence[Any]) -> list[str]:
    return [tensor.op.name for tensor in tensors]


def _tensor_infos(tensors: Sequence[Any]) -> dict[str, Any]:
    return {tensor.name: tf.saved_model.utils.build_tensor_info(tensor) for tensor in tensors}


def _tables_initializer() -> Any:
    """Give what fills the lookup tables where the model is served; None if it has none."""
    has_tables = bool(tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS))
    return tf.tables_initializer() if has_tables else None
