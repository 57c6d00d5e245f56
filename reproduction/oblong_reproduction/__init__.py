"""Experiments of the papers behind the methods, with the published numbers next to ours.

``oblong reproduce`` runs what is written here. There is one package per method (``ekm``, ``rmm``,
...), whose ``EXPERIMENTS`` is a tuple of :class:`Experiment`; :func:`catalogue` joins them.

How an experiment is written
----------------------------
An :class:`Experiment` is a list of independent cells and a function that turns their results into
rows of a table::

    def _cell(sets, rng, *, set, split):                  # a function of a module: it is pickled
        X, y = sets.load(set).X, ...                      # data by name, cached in each process
        rows = rng.permutation(len(y))                    # every draw comes from rng
        return {"svm": error_of_svm, "rmm": error_of_rmm} # small, and JSON can hold it

    def _cells(quick):
        splits = range(2 if quick else 10)
        return [
            Cell(f"{name}/{i}", _cell, {"set": name, "split": i}, data=(name,))
            for name in ("heart", "pima") for i in splits
        ]

    def _rows(results):                                   # what is there, perhaps not all cells
        for name in ("heart", "pima"):
            of = results.where(set=name)
            mean, error = PAPER[name]
            yield mean_row(f"{name}, RMM", mean, of["rmm"], standard_error=error, printed="...")
            yield claim(f"{name}: RMM below SVM", "RMM below SVM", of["rmm"], of["svm"])

    EXPERIMENTS = (Experiment("rmm-table0", PAPER, "what it shows", _cells, _rows, minutes=5,
                              data=("heart", "pima"), protocol="...", quick="two splits"),)

- **A cell** is a pure function of its parameters and its random numbers, which depend on the
  seed, the name of the experiment and the name of the cell alone: results are the same whatever
  ``--jobs`` is. Methods that are compared see the same split if they share a cell, or cells with
  the same ``draw``. One cell should take from a second to a few minutes; each is stored as soon
  as it is finished, and an interrupted run resumes after it. A cell works on one thread.
- **Data** come from ``sets.load(name)``, arrays beside them from ``sets.extra(name, key)``. A
  cell whose data are missing is reported as not run, and so are the rows that need it. A new data
  set needs its line in ``_data.py``.
- **A second stage**, ``then(quick, results)``, makes cells whose parameters depend on the results
  of the first, such as parameters chosen on the first few splits.
- **Rows** come from the functions of ``_verdict.py`` and ``_counts.py``, which compute the verdict.
  Numbers agree or differ: within two standard errors of both means (`mean_row`), on the same test
  rows (`count_row`), or within a stated tolerance (`value_row`). Claims: a paired test (`claim`,
  `no_difference`, `not_above`, `equivalent`), a count of sets (`wins`, `fewer_errors`), a rule
  that ``why`` states (`statement`), or a result that cannot be compared, with the reason
  (`not_comparable`). A rule made after a result had been seen says so (`after_the_fact`). Where
  cells are missing, `not_run`.
- **Choices** of parameters, ``choices(results)``, are compared with the grids they were made from;
  the runner reports how many lie at an edge, where the grid should be wider, and how many at an end
  that a wider grid would not move. A choice that names its ``search`` and values ``beyond`` its
  grid is made once more by the runner if it lies at an open end: a cell ``NAME/wider`` with the
  same draw, the values beyond that end as ``further`` and the first result as ``before``. It
  compares the first choice with what the further values add (`added`) on the same validation rows,
  and a further value needs fewer errors there. What it returns replaces the first result name by
  name; `tried` gives the grid that was searched in the end.
- **A figure** is ``draw(results) -> matplotlib.figure.Figure``; see ``_figure.py``.
- ``quick`` says what ``--quick`` leaves out; together all quick experiments take minutes.
- Results that are large, such as votes, go into ``bulky``: they are kept while a run is not
  complete and left out of the JSON in the end. What the rows need of them is computed once, by
  ``condense(results)``, and stored: rows can always be judged anew from what is stored.
"""

from oblong_reproduction._catalogue import catalogue, find
from oblong_reproduction._counts import count_row, fewer_errors, wins
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import (
    Cell,
    Choice,
    Experiment,
    Paper,
    Results,
    added,
    tried,
)
from oblong_reproduction._headlines import HEADLINES, Headline, Part, verdict_of
from oblong_reproduction._report import markdown, tally
from oblong_reproduction._runner import RunSettings, judge_again, judged, run_experiment
from oblong_reproduction._store import StoreError
from oblong_reproduction._verdict import (
    Row,
    after_the_fact,
    claim,
    equivalent,
    mean_row,
    no_difference,
    not_above,
    not_comparable,
    not_run,
    statement,
    value_row,
)

__all__ = [
    "HEADLINES",
    "Cell",
    "Choice",
    "Experiment",
    "Headline",
    "Paper",
    "Part",
    "Results",
    "Row",
    "RunSettings",
    "Sets",
    "StoreError",
    "added",
    "after_the_fact",
    "catalogue",
    "claim",
    "count_row",
    "equivalent",
    "fewer_errors",
    "find",
    "judge_again",
    "judged",
    "markdown",
    "mean_row",
    "no_difference",
    "not_above",
    "not_comparable",
    "not_run",
    "run_experiment",
    "statement",
    "tally",
    "tried",
    "value_row",
    "verdict_of",
    "wins",
]
