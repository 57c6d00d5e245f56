"""The papers' headline claims, favourable or not, and the rows that decide about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    """A claim that a paper rests on.

    Parameters
    ----------
    claim : str
        The claim.
    paper : str
        Short name of the paper.
    experiment : str
        The experiment that tests it.
    pattern : str
        Regular expression of the rows of its table that decide.
    """

    claim: str
    paper: str
    experiment: str
    pattern: str

    def deciding(self, rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Return the rows that decide."""
        return [row for row in rows if re.search(self.pattern, row["what"])]

    def verdict(self, rows: Sequence[Mapping[str, str]]) -> str:
        """Verdict of the claim: confirmed, or level, only if all rows that can be judged are.

        With rows on both sides, or undecided ones among them, a claim is not confirmed; it is
        contradicted if some rows contradict it and none confirms it.
        """
        words = [row["verdict"] for row in self.deciding(rows)]
        judged = [word for word in words if word in _JUDGED]
        if not words:
            return "not run"
        if not judged:
            return max(set(words), key=words.count)
        if len(set(judged)) == 1:
            return judged[0]
        if "contradicted" in judged and "confirmed" not in judged:
            return "contradicted"
        if set(judged) == {"confirmed", "agrees: no difference"}:
            return "confirmed"
        return "not confirmed"


_JUDGED = ("confirmed", "agrees: no difference", "not confirmed", "contradicted")

HEADLINES = (
    Headline(
        "The relative margin machine makes fewer errors than the SVM on MNIST",
        "RMM",
        "rmm-table2",
        "^mnist-[a-z0-9-]+: polynomials of degree 2 to 7 with fewer errors of RMM than SVM$",
    ),
    Headline(
        "It makes fewer errors than the SVM on the smaller sets of digits",
        "RMM",
        "rmm-table2",
        "^(optdigits|usps): polynomials of degree 2 to 7 with fewer errors of RMM than SVM$",
    ),
    Headline(
        "It makes fewer errors than the Σ-SVM on digits",
        "RMM",
        "rmm-table2",
        "^[a-z0-9-]+: polynomials of degree 2 to 7 with fewer errors of RMM than Σ-SVM$",
    ),
    Headline(
        "It has lower errors than the SVM on most of thirteen benchmark sets",
        "RMM",
        "rmm-table4",
        "^sets on which the RMM",
    ),
    Headline(
        "Stretching the data raises the error of the SVM and not that of the relative margin "
        "machine",
        "RMM",
        "rmm-fig5",
        "^the error of the (SVM rises|RMM does not move)",
    ),
    Headline(
        "Its lead over the SVM on Gaussians lasts up to 6,400 rows and beyond",
        "RMM",
        "rmm-fig4",
        "^n = [0-9]+: test error of RMM below SVM$",
    ),
    Headline(
        "It is better than the SVM on most pairs of newsgroups",
        "RMM",
        "rmm-fig9",
        "^(pairs significantly|mean error)",
    ),
    Headline(
        "It comes close to an SVM that knows a Universum of other images",
        "RMM",
        "rmm-table3",
        "^(RMM below SVM|U-SVM with 1,000 images and RMM|U-SVM with 3,000 images and RMM)$",
    ),
    Headline(
        "Its run time grows with the rows as that of the SVM does",
        "RMM",
        "rmm-fig10",
        "^run time of",
    ),
    Headline(
        "Hard margin: e-SVM and Bayes point make fewer errors than the SVM on most of eleven sets",
        "e-SVM",
        "esvm-fig1-widths",
        "^sets on which",
    ),
    Headline(
        "The relaxed e-SVM has nearly the errors of the exact problem and takes less time",
        "e-SVM",
        "esvm-table1",
        "^(largest difference of the errors|time of the exact problem)",
    ),
    Headline(
        "The e-SVM is much faster than the Bayes point",
        "e-SVM",
        "esvm-fig1-time",
        "^time on",
    ),
    Headline(
        "Soft margin: the e-SVM makes fewer errors than the SVM on seven of seven sets",
        "e-SVM",
        "esvm-table2",
        "^sets on which e-SVM",
    ),
    Headline(
        "On large sets the e-SVM, learned online, makes fewer errors than the SVM",
        "e-SVM",
        "esvm-online",
        "test error of online e-SVM below that of SVM$",
    ),
    Headline(
        "IELLIP makes fewer updates than PA and MIRA, at a comparable or lower error",
        "IELLIP",
        "iellip-fig1",
        "^[A-Za-z]+(: updates of (IELLIP(, one matrix)? below those of (PA|MIRA)|MIRA below those "
        "of IELLIP(, one matrix)?)|, IELLIP(, one matrix)?: mean test error of the third pass, "
        "not above that of (PA|MIRA))$",
    ),
    Headline(
        "A larger b means fewer updates and a higher error",
        "IELLIP",
        "iellip-fig2",
        "sets with fewer updates and a higher error at b = 0.9$",
    ),
    Headline(
        "CW-Stdev makes fewer mistakes than CW-Var, and CW-Var fewer than first-order learners",
        "CW",
        "cw-fig2",
        "mistakes of CW-(Stdev|Var)-(full|diag) below those of",
    ),
    Headline(
        "On text CW-Stdev is ahead of CW-Var on most tasks, but not significantly",
        "CW",
        "cw-fig2c",
        "^(tasks on which|test errors of CW-Stdev-diag and CW-Var-diag, means)",
    ),
    Headline(
        "The ellipsoidal kernel machine makes fewer errors than the SVM on small sets",
        "EKM",
        "ekm-table2",
        "^setup [12]: (sets on which EKM|error of EKM below that of SVM)",
    ),
)
