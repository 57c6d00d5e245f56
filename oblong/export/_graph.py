"""A graph of ONNX operators, built by methods that read like formulas."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import scipy.sparse as sp
from onnx import TensorProto, helper, numpy_helper

# Operators of this set are supported by every runtime in use, and include all that is needed.
OPSET = 17
ML_OPSET = 3
_IR_VERSION = 8
_TINY = float(np.finfo(np.float64).tiny)


class Unexportable(ValueError):
    """A model, or a part of one, whose prediction cannot be expressed in ONNX."""


class Graph:
    """Collects nodes and constants; methods return names of tensors.

    All numbers are in double precision, whatever the input: sums of large coefficients of either
    sign need the digits.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._count = 0

    def new_name(self, what: str) -> str:
        """A name that is unique in the graph."""
        self._count += 1
        return f"{what.lower()}_{self._count}"

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """A constant tensor."""
        if sp.issparse(value):
            value = value.toarray()
        array = np.ascontiguousarray(value) if dtype is None else np.asarray(value, dtype=dtype)
        name = self.new_name("constant")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Apply an operator."""
        return self.nodes_of(operator, 1, *inputs, **attributes)[0]

    def nodes_of(self, operator: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        """Apply an operator that has several outputs."""
        outputs = [self.new_name(operator) for _ in range(n)]
        # ONNX Runtime 1.18 fuses nodes under their names, which must differ for it.
        named = helper.make_node(operator, list(inputs), outputs, outputs[0], **attributes)
        self.nodes.append(named)
        return outputs

    def join(self, tensor: str, name: str) -> None:
        """Give a tensor another name, to connect operators written by another converter."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name], name))

    # Formulas ------------------------------------------------------------------------------------

    def times(self, X: str, matrix: Any) -> str:
        """``X @ matrix`` for a constant matrix."""
        return self.node("MatMul", X, self.constant(matrix))

    def plus(self, X: str, value: Any) -> str:
        """``X + value`` for a constant."""
        return self.node("Add", X, self.constant(value))

    def scaled(self, X: str, value: Any) -> str:
        """``X * value`` for a constant."""
        return self.node("Mul", X, self.constant(value))

    def sum(self, X: str, axis: int = 1) -> str:
        """Sums along an axis, which is kept."""
        return self.node("ReduceSum", X, self.constant([axis], np.int64), keepdims=1)

    def squares(self, X: str) -> str:
        """Sums of squares of the rows, as a column."""
        return self.sum(self.node("Mul", X, X))

    def at_least(self, X: str, value: Any) -> str:
        """``max(X, value)``."""
        return self.node("Max", X, self.constant(value))

    def standardised(self, f: str, v: str) -> str:
        """``f / √v``, with a variance that is not zero."""
        return self.node("Div", f, self.node("Sqrt", self.at_least(v, _TINY)))

    def number(self, truth: str) -> str:
        """Truth values as zeros and ones."""
        return self.node("Cast", truth, to=TensorProto.DOUBLE)

    def column(self, X: str) -> str:
        """The only column of ``X``, as a vector."""
        return self.node("Squeeze", X, self.constant([1], np.int64))

    def quadratic(self, X: str, matrix: Any) -> str:
        """``x' M x`` for every row, as a column."""
        return self.sum(self.node("Mul", self.times(X, matrix), X))

    def with_constant(self, X: str, value: float, *, first: bool) -> str:
        """A column of one value before or after the others."""
        ones = self.plus(self.scaled(self.part(X, 0), 0.0), value)
        return self.node("Concat", *((ones, X) if first else (X, ones)), axis=1)

    def part(self, X: str, *columns: int) -> str:
        """Some columns."""
        return self.node("Gather", X, self.constant(columns, np.int64), axis=1)

    def largest(self, scores: str) -> str:
        """Index of the largest score of every row, the first of equal ones."""
        return self.node("ArgMax", scores, axis=1, keepdims=0)

    def positive(self, output: str) -> str:
        """0 or 1 by the sign of the only column."""
        above = self.node("Greater", self.column(output), self.constant(0.0))
        return self.node("Cast", above, to=TensorProto.INT64)

    def labels(self, places: str, classes: np.ndarray) -> str:
        """Class labels by their indices."""
        if classes.dtype.kind in "iu":
            return self.node("Gather", self.constant(classes, np.int64), places)
        if classes.dtype.kind in "bf":
            return self.node("Gather", self.constant(classes, None), places)
        if all(isinstance(label, str) for label in classes.tolist()):
            return self.node("Gather", self.constant(classes.astype(object), None), places)
        raise Unexportable(f"class labels of the type {classes.dtype}")

    # The whole -----------------------------------------------------------------------------------

    def model(
        self,
        inputs: Mapping[str, int],
        source: str,
        outputs: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> onnx.ModelProto:
        """The graph as a model.

        Parameters
        ----------
        inputs : mapping of str to int
            Names of the inputs, ``"text"`` among them for words, and numbers of their columns.
        source : {"float64", "float32"}
            Type of the inputs that hold numbers.
        outputs : mapping of str to str
            Names of the outputs, and the tensors they refer to.
        properties : mapping of str to str
            Metadata for users of the model.
        """
        for name, tensor in outputs.items():
            self.join(tensor, name)
        numbers = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}[source]
        columns = [
            helper.make_tensor_value_info(
                name, TensorProto.STRING if name == "text" else numbers, [None, width]
            )
            for name, width in inputs.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            "oblong",
            columns,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            self.constants,
        )
        domains = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            domains.append(helper.make_opsetid("ai.onnx.ml", ML_OPSET))
        model = helper.make_model(
            graph, opset_imports=domains, producer_name="oblong", ir_version=_IR_VERSION
        )
        helper.set_model_props(model, dict(properties))
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
        return model
