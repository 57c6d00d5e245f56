from __future__ import annotations

import pytest

from oblong._core.rollback import all_or_nothing


def test_rollback():
    class Thing:
        def __init__(self):
            self.kept, self.gone = 1, 2

    thing = Thing()

    def change():
        with all_or_nothing(thing):
            thing.kept, thing.new = 5, 6
            del thing.gone
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change()
    assert vars(thing) == {"kept": 1, "gone": 2}
    with all_or_nothing(thing):
        thing.kept = 7
    assert thing.kept == 7
