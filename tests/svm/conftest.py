from __future__ import annotations


def pytest_configure(config):
    config.addinivalue_line("markers", "thread_unsafe: a mark of scikit-learn's own tests")
