"""Which session a real agent is in: proven by its hook and its output, also after a change inside."""

import pytest

from tests.e2e_real.processes import until
from tests.e2e_real.rig import Rig

pytestmark = pytest.mark.real


def test_an_agents_session_and_file_are_proven(rig: Rig, cli: str) -> None:
    launched = rig.agent(cli, "one", "RUN: tail -f /dev/null")

    def proven() -> bool:
        return rig.entry("one")["generation"]["session"] is not None

    until(proven, "a proof")
    record = rig.entry("one")
    assert record["generation"]["session"] == launched["sessionId"]
    context = record["agent"]["resumeContext"]
    assert context["providerSessionId"] == launched["sessionId"]
    assert launched["sessionId"] in context["sessionFile"]
    assert rig.run("stop", "one").code == 0
    rig.assert_nothing_left()
