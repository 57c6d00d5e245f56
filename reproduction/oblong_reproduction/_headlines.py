"""The papers' headline claims, favourable or not, and the rows that decide about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """Rows of one experiment that decide about a claim, or about a part of it.

    Parameters
    ----------
    experiment : str
        The experiment that tests it.
    pattern : str
        Regular expression of the rows of its table that decide.
    where : str, default=""
        What this part of the claim is about, where there are several.
    """

    experiment: str
    pattern: str
    where: str = ""

    def deciding(self, document: Mapping[str, Any] | None) -> list[Mapping[str, str]]:
        """Return the rows that decide, of the stored result of the experiment."""
        rows = document["rows"] if document else []
        return [row for row in rows if re.search(self.pattern, row["what"])]


@dataclass(frozen=True)
class Headline:
    """A claim that a paper rests on.

    Parameters
    ----------
    claim : str
        The claim.
    paper : str
        Short name of the paper.
    parts : tuple of Part
        The rows that decide.
    """

    claim: str
    paper: str
    parts: tuple[Part, ...]

    def verdict(self, documents: Mapping[str, Mapping[str, Any] | None]) -> str:
        """Verdict on the claim from the stored results by name of the experiment.

        A part of which nothing can be judged yet leaves a claim open that the others confirm.
        """
        rows = [part.deciding(documents.get(part.experiment)) for part in self.parts]
        verdict = verdict_of([row for some in rows for row in some])
        open_parts = [word for some in rows if (word := verdict_of(some)) in _OPEN]
        return open_parts[0] if open_parts and verdict in _JUDGED[:2] else verdict


def verdict_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Verdict of several rows: confirmed, or level, only if all rows that can be judged are.

    With rows on both sides, or undecided ones among them, a claim is not confirmed; it is
    contradicted if some rows contradict it and none confirms it.
    """
    words = [row["verdict"] for row in rows]
    judged = [word for word in words if word in _JUDGED]
    if not words:
        return "not run"
    if not judged:
        return max(dict.fromkeys(words), key=words.count)
    if len(set(judged)) == 1:
        return judged[0]
    if "contradicted" in judged and "confirmed" not in judged:
        return "contradicted"
    if set(judged) == {"confirmed", "agrees: no difference"}:
        return "confirmed"
    return "not confirmed"


_JUDGED = ("confirmed", "agrees: no difference", "not confirmed", "contradicted")
_OPEN = ("too few runs", "not run")
_EKM = "^setup [12]: (sets on which EKM has a lower error than|error of EKM below that of)"
_DIGITS = ": polynomials of degree 2 to 7 with fewer errors of RMM than "

HEADLINES = (
    Headline(
        "The relative margin machine (RMM) makes fewer errors on digits than the SVM and the Σ-SVM",
        "RMM",
        (
            Part("rmm-table2", f"^mnist-[a-z0-9-]+{_DIGITS}SVM$", "SVM, MNIST"),
            Part("rmm-table2", f"^(optdigits|usps){_DIGITS}SVM$", "SVM, smaller sets"),
            Part("rmm-table2", f"^[a-z0-9-]+{_DIGITS}Σ-SVM$", "Σ-SVM"),
            Part("rmm-table2-wider", f"^[a-z0-9-]+{_DIGITS}Σ-SVM$", "Σ-SVM, wider grids"),
        ),
    ),
    Headline(
        "It has lower errors than the SVM on most of thirteen benchmark sets",
        "RMM",
        (Part("rmm-table4", "^sets on which the RMM"),),
    ),
    Headline(
        "On long Gaussians it stays ahead of the SVM as rows are stretched, and as they grow in "
        "number",
        "RMM",
        (
            Part("rmm-fig5", "^the error of the (SVM rises|RMM does not move)", "stretched"),
            Part(
                "rmm-fig4",
                "^n = [0-9]+: test error of RMM below SVM$",
                "up to 6,400 rows and beyond",
            ),
        ),
    ),
    Headline(
        "It is better than the SVM on newsgroups, and close to an SVM with a Universum of other "
        "images",
        "RMM",
        (
            Part("rmm-fig9", "^(pairs significantly|mean error)", "newsgroups"),
            Part(
                "rmm-table3",
                "^(RMM below SVM|U-SVM with 1,000 images and RMM|U-SVM with 3,000 images and RMM)$",
                "Universum",
            ),
        ),
    ),
    Headline(
        "Its run time grows with the rows as that of the SVM does",
        "RMM",
        (Part("rmm-fig10", "^run time of"),),
    ),
    Headline(
        "Hard margin: e-SVM and Bayes point make fewer errors than the SVM on most of eleven sets",
        "e-SVM",
        (Part("esvm-fig1-widths", "^sets on which"),),
    ),
    Headline(
        "Soft margin: the e-SVM makes fewer errors than the SVM, on all of seven sets and on large "
        "ones",
        "e-SVM",
        (
            Part("esvm-table2", "^sets on which e-SVM", "seven sets, some of the rows"),
            Part("esvm-table2-full", ", sets on which e-SVM", "all rows"),
            Part(
                "esvm-online", "test error of online e-SVM below that of SVM$", "large sets, online"
            ),
        ),
    ),
    Headline(
        "The relaxed e-SVM has nearly the errors of the exact one in less time, and is much faster "
        "than the Bayes point",
        "e-SVM",
        (
            Part(
                "esvm-table1",
                "^(largest difference of the errors|time of the exact problem)",
                "relaxed",
            ),
            Part("esvm-fig1-time", "^time on", "Bayes point"),
        ),
    ),
    Headline(
        "IELLIP makes fewer updates than PA and MIRA, at a comparable or lower error",
        "IELLIP",
        (
            Part(
                "iellip-fig1",
                "^[A-Za-z]+(: updates of (IELLIP(, one matrix)? below those of (PA|MIRA)|MIRA "
                "below those of IELLIP(, one matrix)?)|, IELLIP(, one matrix)?: mean test error of "
                "the third pass, not above that of (PA|MIRA))$",
            ),
        ),
    ),
    Headline(
        "A larger b means fewer updates of IELLIP and a higher error",
        "IELLIP",
        (Part("iellip-fig2", "sets with fewer updates and a higher error at b = 0.9$"),),
    ),
    Headline(
        "CW-Stdev makes fewer mistakes than CW-Var, and CW-Var fewer than first-order learners; on "
        "text the two are close",
        "CW",
        (
            Part(
                "cw-fig2",
                "mistakes of CW-(Stdev|Var)-(full|diag) below those of",
                "stripe in noise",
            ),
            Part(
                "cw-fig2c",
                "^(tasks on which|test errors of CW-Stdev-diag and CW-Var-diag, means)",
                "text",
            ),
        ),
    ),
    Headline(
        "The ellipsoidal kernel machine makes fewer errors than the SVM and than whitening by the "
        "covariance on small sets",
        "EKM",
        (
            Part("ekm-table2", f"{_EKM} SVM", "SVM"),
            Part("ekm-table2", f"{_EKM} Gaussian", "whitening"),
        ),
    ),
)
