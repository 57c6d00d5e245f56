from __future__ import annotations

import pytest

from oblong.persistence.journal import Journal


def test_records_come_back_in_order(tmp_path):
    journal = Journal(tmp_path / "new" / "run.jsonl")
    assert journal.read() == []
    records = [{"k": k, "text": "a\nü"} for k in range(3)]
    for record in records:
        journal.append(record)
    assert journal.read() == Journal(journal.path).read() == records
    journal.remove()
    journal.remove()
    assert journal.read() == []


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_half_a_line_does_not_count_and_swallows_nothing(tmp_path, cut):
    journal = Journal(tmp_path / "run.jsonl")
    for k in range(2):
        journal.append({"number": k})
    journal.path.write_bytes(journal.path.read_bytes()[: -cut - 1])
    assert journal.read() == [{"number": 0}]
    journal.append({"number": 2})
    assert journal.read() == [{"number": 0}, {"number": 2}]


def test_lines_that_are_no_objects_are_skipped(tmp_path):
    journal = Journal(tmp_path / "run.jsonl")
    journal.path.write_text('[1]\n{"k": 1}\n\nnot json\n' + "[" * 100_000 + "\n")
    assert journal.read() == [{"k": 1}]


def test_all_records_are_replaced_at_once(tmp_path):
    journal = Journal(tmp_path / "run.jsonl")
    journal.append({"k": 1})
    journal.replace([{"k": 2}, {"k": 3}])
    assert journal.read() == [{"k": 2}, {"k": 3}]
    with pytest.raises(TypeError):
        journal.replace([{"k": object()}])
    assert journal.read() == [{"k": 2}, {"k": 3}]


def test_a_file_that_is_not_text_is_an_error(tmp_path):
    journal = Journal(tmp_path / "run.jsonl")
    journal.path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnicodeDecodeError):
        journal.read()
