"""Relative margin machines: tables 1 to 4 and figures 1 and 3 to 10, and when it helps."""

from oblong_reproduction.rmm.benchmarks import TABLE_4
from oblong_reproduction.rmm.choices import TABLE_2_CHOICES
from oblong_reproduction.rmm.digit_figures import FIGURE_7, FIGURE_8
from oblong_reproduction.rmm.digits import TABLE_2
from oblong_reproduction.rmm.gaussians import FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6
from oblong_reproduction.rmm.newsgroups import FIGURE_9
from oblong_reproduction.rmm.rivals import RIVALS
from oblong_reproduction.rmm.runtime import FIGURE_10
from oblong_reproduction.rmm.toys import FIGURE_1, TABLE_1
from oblong_reproduction.rmm.universum import TABLE_3
from oblong_reproduction.rmm.when import WHEN
from oblong_reproduction.rmm.wider import TABLE_2_WIDER

EXPERIMENTS = (
    FIGURE_1,
    TABLE_1,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    TABLE_2,
    TABLE_2_CHOICES,
    TABLE_2_WIDER,
    FIGURE_7,
    FIGURE_8,
    TABLE_3,
    FIGURE_9,
    TABLE_4,
    FIGURE_10,
    WHEN,
    RIVALS,
)

__all__ = ["EXPERIMENTS"]
