"""How long Hypothesis hunts: shortly in `make test`, longer with HYPOTHESIS_PROFILE=nightly."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("house", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("house"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))
