"""Second-order online learning: one compiled pass, many rules, three structures of the shape.

- :mod:`~oblong.solvers.online.rules` holds the rules, a few lines each;
- :mod:`~oblong.solvers.online.state` holds the model as plain arrays, and learns from batches;
- :mod:`~oblong.solvers.online.growth` makes room for features and classes that appear;
- :mod:`~oblong.solvers.online.merge` puts models of shards together;
- :mod:`~oblong.solvers.online.order` shuffles rows by their content.
"""
