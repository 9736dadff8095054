"""Settings of the property tests.

CAUDAL_LIBRARY           path of the libcaudal.so to test
CAUDAL_DOOR              path of the libper_call_door.so of the same build
CAUDAL_PROPERTY_PROFILE  quick (some 20 s in all), default (some 90 s) or long (half an hour). quick and default try the same
                         examples each time, so that a run can be repeated; long tries new ones and prints how to repeat one.
"""
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]

COMMON = {"deadline": None, "print_blob": True, "database": None,
          "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("quick", max_examples=60, derandomize=True, **COMMON)
settings.register_profile("default", max_examples=300, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=5000, **COMMON)
settings.load_profile(os.environ.get("CAUDAL_PROPERTY_PROFILE", "default"))


def pytest_configure():
    for variable, name in (("CAUDAL_LIBRARY", "libcaudal.so"), ("CAUDAL_DOOR", "libper_call_door.so")):
        path = os.environ.get(variable)
        if not path:
            raise pytest.UsageError(f"set {variable} to the path of the {name} to test")
        if not Path(path).is_file():
            raise pytest.UsageError(f"{variable}: there is no file {path}")


@pytest.fixture(scope="session")
def store():
    """A store that all examples share: each adds limits of its own and removes them. Small, for that visits every entry."""
    import caudal

    with caudal.Store("memory:?keys=2048&wide_keys=1024&log_entries=1000000", clock_ns=1764547200 * 10**9) as opened:
        yield opened
