"""The loops over examples, which differ in how they reach the numbers of a round.

- :mod:`~oblong.solvers.online.passes.general` takes any task and structure;
- :mod:`~oblong.solvers.online.passes.two_classes` has one loop for tables and one for a full
  covariance, with less to go through;
- :mod:`~oblong.solvers.online.passes.blocks` learns from many rows at once, exactly, on small
  matrices.

What happens in a round is the same for all and written once, in
:mod:`oblong.solvers.online.round`.
"""
