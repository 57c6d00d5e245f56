"""Second-order online learning: one round, many rules, four structures of the covariance.

- :mod:`~oblong.solvers.online.rules`: the rules, a few lines each;
- :mod:`~oblong.solvers.online.round`: what happens in a round, whatever the loop;
- :mod:`~oblong.solvers.online.tasks`: how an example of several classes becomes examples of two;
- :mod:`~oblong.solvers.online.calibration`: sigmoids of the outputs, fitted on the way;
- :mod:`~oblong.solvers.online.passes`: the four loops over examples;
- :mod:`~oblong.solvers.online.structures`: no covariance or a diagonal one, a full one, a sketch;
- :mod:`~oblong.solvers.online.slots`: names of the slots in a model's arrays;
- :mod:`~oblong.solvers.online.state`: the model as plain arrays, which learns and predicts;
- :mod:`~oblong.solvers.online.protocol`: what estimators need of a model;
- :mod:`~oblong.solvers.online.growth`: features and classes that appear;
- :mod:`~oblong.solvers.online.merge`: models of shards put together;
- :mod:`~oblong.solvers.online.balance`: numbers kept in range between batches;
- :mod:`~oblong.solvers.online.kernel`: the same in the feature space of a kernel;
- :mod:`~oblong.solvers.online.order`: rows shuffled by their content;
- :mod:`~oblong.solvers.online.options`: what may be tuned.
"""
