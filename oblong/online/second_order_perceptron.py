"""The second-order perceptron."""

from dataclasses import dataclass

from oblong._core.estimator import Positive
from oblong.online._linear import GaussianClassifier
from oblong.solvers.online.rules import Rule, second_order_perceptron


@dataclass(kw_only=True, eq=False, repr=False)
class SecondOrderPerceptron(GaussianClassifier):
    r"""Second-order perceptron: a perceptron that whitens its mistakes.

    Over the examples :math:`(x_i, y_i)` that were mistakes so far it predicts [1]_ the sign of

    .. math::

        \Bigl(\sum_i y_i x_i\Bigr)^\top \Bigl(a I + \sum_i x_i x_i^\top + x x^\top\Bigr)^{-1} x ,

    where the matrix includes the example :math:`x` to be predicted; this does not change the
    sign. It is AROW with :math:`r = 1`, the initial variance :math:`1 / a`, and updates on
    mistakes only.

    Parameters
    ----------
    a : float, default=1.0
        Weight of the identity in the matrix, larger than zero.
    covariance : {"auto", "full", "diag", "sketch"}, default="auto"
        The covariance of the weights: "full", one matrix per class; "diag", variances only, for
        many features; or "sketch", a diagonal plus a matrix of low rank, for many features that are
        correlated. "auto" is "full" up to 256 features and "diag" beyond; of a model that grows
        beyond, the diagonal is kept.
    sketch_size : int, default=16
        Rank of the sketch. It collects twice as many directions before it drops the weakest.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature.
    multi_class : {"top1", "kbest", "ovr"}, default="top1"
        With more than two classes: "top1" compares each example with the highest-scoring wrong
        class, "kbest" with the ``k_best`` highest-scoring ones, one after the other, and "ovr"
        learns a binary model per class.
    k_best : int, default=3
        Number of wrong classes for "kbest".
    max_iter : int, default=5
        Maximum number of passes of :meth:`fit`.
    tol : float, default=1e-3
        :meth:`fit` stops when the fraction of mistakes during a pass, or the error on the held-out
        rows, no longer decreases by this much. With None it makes all passes.
    shuffle : bool, default=True
        Whether each pass of :meth:`fit` takes the rows in a new random order, which does not depend
        on the order in which they are given.
    early_stopping : bool, default=False
        Whether to hold out rows, stop when their error no longer decreases, and keep the model with
        the lowest error on them.
    validation_fraction : float, default=0.1
        Fraction of the rows to hold out.
    n_iter_no_change : int, default=5
        Number of passes without improvement before :meth:`fit` stops.
    average : bool, default=False
        Whether predictions use the mean of the weights over all rounds.
    allow_new_classes : bool, default=False
        Whether :meth:`partial_fit` and :meth:`learn_one` accept classes that were not declared.
    calibration : {"platt"}, default=None
        "platt" fits a sigmoid to the outputs, each computed before its label is learned.
        :meth:`predict_proba` and :meth:`predict` then use it instead of the Gaussian.
    forgetting : float, default=1.0
        Factor, from 1e-6 to 1, of the precision after every update, so that older
        examples count less. Variances stay below twice their initial value, those of a diagonal
        below the initial value.
    normalize : bool, default=False
        Whether to divide every feature by its largest absolute value so far, so that decisions do
        not depend on the units of the columns. A single huge value makes a feature small from then
        on.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    covariance_ : ndarray
        The covariance of the weights, of shape (n_features, n_features), or its diagonal if it is
        not full; one per class if there are more than two.
    n_updates_ : int
        Number of updates of the model.
    n_mistakes_ : int
        Number of examples that were misclassified before they were learned from.
    n_skipped_ : int
        Number of examples that were skipped because the variance of their output was zero.
    t_ : int
        Number of examples seen.
    n_iter_ : int
        Number of passes of the last call to :meth:`fit`.
    multilabel_ : bool
        Whether the labels are an indicator matrix.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    References
    ----------
    .. [1] N. Cesa-Bianchi, A. Conconi and C. Gentile, "A Second-Order Perceptron Algorithm",
       SIAM Journal on Computing 34, 640-668, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from oblong import SecondOrderPerceptron
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SecondOrderPerceptron(average=True, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.96
    True
    """

    a: Positive = 1.0

    def _rule(self, n_features: int) -> Rule:
        return second_order_perceptron()

    def _variance(self) -> float:
        return 1.0 / float(self.a)
