"""Column transformers as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from oblong.export._graph import Graph, Unexportable
from oblong.export._transformers import categories_of, one_hot, write_transformer


class Inputs:
    """The inputs of a graph: columns of numbers in one, columns of text in the other.

    Parameters
    ----------
    n_features : int
        Columns of the table.
    text : sequence of int
        Positions of the columns of text.
    """

    def __init__(self, n_features: int, text: Sequence[int] = ()) -> None:
        self.text, among = sorted(text), set(text)
        self.numbers = [j for j in range(n_features) if j not in among]
        # Where each column of the table is in its input.
        self.places = {j: k for part in (self.text, self.numbers) for k, j in enumerate(part)}

    def sizes(self) -> dict[str, int]:
        """Number of columns of each input; an input without columns is left out."""
        sizes = {"X": len(self.numbers), "text": len(self.text)}
        return {name: n for name, n in sizes.items() if n or (name == "X" and not self.text)}


def text_columns(step: Any) -> list[int]:
    """Columns of text that the first step of a pipeline encodes."""
    if not isinstance(step, ColumnTransformer):
        return []
    found = []
    for part, columns in _parts(step):
        if isinstance(part, OneHotEncoder):
            kinds = [_is_text(categories) for categories in part.categories_]
            found += [column for column, text in zip(columns, kinds) if text]
    return found


def write_columns(graph: Graph, X: str, step: ColumnTransformer, inputs: Inputs) -> str:
    """Write a column transformer.

    Parameters
    ----------
    graph : Graph
        Where to.
    X : str
        The columns of numbers.
    step : ColumnTransformer
        Fitted.
    inputs : Inputs
        Where each column is.
    """
    text, results = set(inputs.text), []
    for part, columns in _parts(step):
        if not text & set(columns):
            chosen = graph.part(X, *(inputs.places[j] for j in columns))
            results.append(write_steps(graph, chosen, part))
        elif isinstance(part, OneHotEncoder):
            ignores = part.handle_unknown == "ignore"
            for column, known in zip(columns, categories_of(part)):
                if column in text:
                    results.append(_one_hot_text(graph, inputs.places[column], known, ignores))
                else:
                    chosen = graph.part(X, inputs.places[column])
                    results.append(one_hot(graph, chosen, [known], ignore_unknown=ignores))
        else:
            raise Unexportable(f"a {type(part).__name__} of columns of text")
    if not results:
        raise Unexportable("a ColumnTransformer that drops all columns")
    return results[0] if len(results) == 1 else graph.node("Concat", *results, axis=1)


def write_steps(graph: Graph, X: str, step: Any) -> str:
    """Write a transformer, or those of a pipeline one after the other."""
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            X = write_steps(graph, X, inner)
        return X
    if isinstance(step, ColumnTransformer):
        return write_columns(graph, X, step, Inputs(int(step.n_features_in_)))
    return write_transformer(graph, X, step)


def _parts(step: ColumnTransformer) -> list[tuple[Any, list[int]]]:
    """The transformers with the positions of their columns."""
    parts = []
    for name, part, columns in step.transformers_:
        first = part.steps[0][1] if isinstance(part, Pipeline) else part
        if hasattr(first, "build_analyzer"):
            raise Unexportable(f"texts split into words, by a {type(first).__name__}")
        if isinstance(columns, (int, np.integer, str)):
            raise Unexportable("a ColumnTransformer of single columns; name them in a list")
        places = np.asarray(step._transformer_to_input_indices[name], dtype=np.intp).tolist()
        if places and not (isinstance(part, str) and part == "drop"):
            parts.append((part, places))
    return parts


def _is_text(categories: np.ndarray) -> bool:
    return any(isinstance(category, str) for category in categories.tolist())


def _one_hot_text(graph: Graph, place: int, categories: np.ndarray, ignores: bool) -> str:
    words = categories.tolist()
    if not all(isinstance(word, str) for word in words):
        raise Unexportable("categories that are words and numbers in one column")
    column = graph.node("Gather", "text", graph.constant(place, np.int64), axis=1)
    # An unknown word gives zeros, or is an error.
    found = graph.node(
        "OneHotEncoder", column, domain="ai.onnx.ml", cats_strings=words, zeros=int(ignores)
    )
    return graph.number(found)
