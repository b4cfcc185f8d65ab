"""Export of trained models as frozen graphs or SavedModels."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.checks import check_type
from ..utils.errors import type_error
from .config import PredictConfig

__all__ = ["ModelExporter"]


class ModelExporter:
    """
    Exporter of a model to files that TensorFlow serves without this library.

    Each export builds the model in inference mode, in a tower without a name, and loads its variables.

    Args:
        config: a `PredictConfig`. Its `session_init` must load every variable. `input_names` and
            `output_names` may name any tensors of the graph.

    Raises:
        TypeError: `config` is not a PredictConfig.
        KeyError: in an export: a name is not in the graph. The message lists the nearest names.
        ValueError: in an export: `session_init` does not load all variables.

    Example:
        >>> exporter = ModelExporter(PredictConfig(
        ...     model=Model(), session_init=SmartInit("train_log/checkpoint"),
        ...     input_names=["image"], output_names=["probability"]))
        >>> exporter.export_compact("model.pb")
        >>> exporter.export_serving("serving/1")
    """

    def __init__(self, config: PredictConfig) -> None:
        self.config = check_type("ModelExporter: config", config, PredictConfig)

    def export_compact(self, filename: str, optimize: bool = True, toco_compatible: bool = False) -> None:
        """
        Write a frozen graph: the operations that the outputs need, with the variables as constants.

        Args:
            filename: path of the file, a binary `GraphDef`. An existing file is replaced.
            optimize: remove operations that only training needs, and fold batch normalization into convolutions.
            toco_compatible: use only operations that TensorFlow Lite's converter supports.

        Raises:
            ValueError: `toco_compatible` without `optimize`.

        Example:
            >>> graph_def = tf.GraphDef()
            >>> graph_def.ParseFromString(open("model.pb", "rb").read())
            >>> tf.import_graph_def(graph_def, name="")
            >>> sess.run("probability:0", {"image:0": image})
        """
        if toco_compatible and not optimize:
            raise ValueError(
                "ModelExporter.export_compact: toco_compatible=True needs optimize=True. Pass both."
            )
        with self._model() as (sess, inputs, outputs):
            results = [tensor.op.name for tensor in outputs]
            graph_def = sess.graph.as_graph_def()
            graph_def = tf.graph_util.convert_variables_to_constants(sess, graph_def, results)
        if optimize:
            nodes = {node.name for node in graph_def.node}
            dtypes = {one.op.name: one.dtype.as_datatype_enum for one in inputs if one.op.name in nodes}
            graph_def = private.optimize_for_inference(
                graph_def, list(dtypes), results, list(dtypes.values()), toco_compatible
            )
        with tf.gfile.GFile(filename, "wb") as file:
            file.write(graph_def.SerializeToString(deterministic=True))
        logger.info("Frozen graph of %d nodes written to %s.", len(graph_def.node), filename)

    def export_serving(
        self,
        filename: str,
        tags: Sequence[str] | None = None,
        signature_name: str = "prediction_pipeline",
        overwrite: bool = False,
    ) -> None:
        """
        Write a SavedModel for TensorFlow Serving and `tf.saved_model.load`.

        The inputs and outputs of its signature are named as tensors of the graph: `"image:0"`. The directory
        appears when it is complete; it is written to `<filename>.tmp` first.

        Args:
            filename: path of the directory.
            tags: tags of the graph. Default: that of serving, `"serve"`.
            signature_name: name of the signature.
            overwrite: replace the SavedModel at `filename`, if there is one.

        Raises:
            FileExistsError: `filename` exists, and either `overwrite` is False or `filename` is not a SavedModel.
            TypeError: `tags` is a string.

        Example:
            >>> predict = tensorflow.saved_model.load("serving/1").signatures["prediction_pipeline"]     # TF 2
            >>> predict(**{"image:0": tensorflow.constant(image)})["probability:0"]
        """
        tags = [tf.saved_model.tag_constants.SERVING] if tags is None else tags
        if isinstance(tags, str):
            raise type_error(
                "ModelExporter.export_serving: tags", "a list of strings", tags, f"Write [{tags!r}]."
            )
        filename = os.fspath(filename).rstrip("/")
        _check_destination(filename, overwrite)
        unfinished = f"{filename}.tmp"
        if tf.gfile.Exists(unfinished):  # of an export that was killed
            tf.gfile.DeleteRecursively(unfinished)
        with self._model() as (sess, inputs, outputs):
            signature = tf.saved_model.signature_def_utils.build_signature_def(
                inputs=_tensor_infos(inputs),
                outputs=_tensor_infos(outputs),
                method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME,
            )
            has_tables = bool(tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS))
            builder = tf.saved_model.builder.SavedModelBuilder(unfinished)
            builder.add_meta_graph_and_variables(
                sess,
                list(tags),
                signature_def_map={signature_name: signature},
                main_op=tf.tables_initializer() if has_tables else None,
                clear_devices=True,
                strip_default_attrs=True,  # so that an older TensorFlow can read it
            )
            builder.save()
        if tf.gfile.Exists(filename):
            tf.gfile.DeleteRecursively(filename)
        tf.gfile.Rename(unfinished, filename)
        logger.info("SavedModel written to %s.", filename)

    @contextmanager
    def _model(self) -> Iterator[tuple[tf.Session, list[tf.Tensor], list[tf.Tensor]]]:
        """Build the model and load its variables. Yield the session, the inputs and the outputs."""
        config = self.config
        with config._maybe_create_graph().as_default():
            inputs, outputs = config._build_model()
            config.session_init._setup_graph()
            uninitialized = tf.report_uninitialized_variables(tf.global_variables())
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
                config.session_init._run_init(sess)
                names = ", ".join(sorted(name.decode() for name in sess.run(uninitialized)))
                if names:
                    raise ValueError(
                        f"ModelExporter: session_init does not load these variables: {names}. Give PredictConfig a "
                        "session_init that loads all variables, e.g. SmartInit('train_log/checkpoint')."
                    )
                yield sess, inputs, outputs


def _check_destination(path: str, overwrite: bool) -> None:
    """Raise FileExistsError if a SavedModel may not be written to `path`."""
    if not tf.gfile.Exists(path):
        return
    is_saved_model = tf.gfile.Exists(os.path.join(path, "saved_model.pb"))
    if is_saved_model and overwrite:
        return
    problem = f"{path} exists" if is_saved_model else f"{path} exists and is not a SavedModel"
    way_out = ", or pass overwrite=True" if is_saved_model else ""
    advice = f"Export to {_next_version(path)}{way_out}."
    raise FileExistsError(f"ModelExporter.export_serving: {problem}. {advice}")


def _next_version(path: str) -> str:
    """Return the path of the next version: "export/3" for "export/1" or "export" if "export" contains "1" and "2"."""
    is_parent = tf.gfile.IsDirectory(path) and not os.path.basename(path).isdigit()
    parent = path if is_parent else os.path.dirname(path)
    names = [name.rstrip("/") for name in tf.gfile.ListDirectory(parent or ".")]
    newest = max((int(name) for name in names if name.isdigit()), default=0)
    return os.path.join(parent, str(newest + 1))


def _tensor_infos(tensors: Sequence[tf.Tensor]) -> dict[str, Any]:
    return {tensor.name: tf.saved_model.utils.build_tensor_info(tensor) for tensor in tensors}
