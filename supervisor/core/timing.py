"""Every duration, derived from one tick, each with its reason. Owns no state; never reads a clock.

Units are in the names: `_MS` milliseconds, `_NS` nanoseconds. Source of the figures: the pi forwarding protocol
(poll, refresh, stale, grace) and the process-matrix settings.
"""

MS = 1_000_000  # nanoseconds in a millisecond

TICK_MS = 250
"""The fallback poll of everything that waits without a watch."""

HEARTBEAT_REFRESH_MS = 4 * TICK_MS
"""A keeper beats once a second: cheap (one pwrite), and five misses fit in the staleness bound."""

HEARTBEAT_STALE_MS = 5 * HEARTBEAT_REFRESH_MS
"""Five missed beats: a delayed timer or a starved core is not a dead session."""

ENTRY_HEARTBEAT_MS = 30_000
"""Default of `processMatrix.heartbeat_ms`: how often `heartbeatAt` inside an entry is renewed."""

WATCHER_POLL_MS = 25_000
"""Default of `processMatrix.watcher_poll_ms`: the slow look that makes every lost wake-up harmless."""

ADOPTION_GRACE_MS = 1200 * TICK_MS
"""Default of `processMatrix.adoption_grace_ms`: how long an orphan lives on and may be adopted. Five minutes: time to
notice that a terminal has died, and to resume what ran in it."""

KILL_WAIT_MS = 8 * TICK_MS
"""How long SIGKILLed processes may take to vanish before they are named survivors (uninterruptible sleep)."""

STOP_RESCAN_MS = TICK_MS // 5
"""How often a stopping tree is looked at while something of it is left; exits themselves wake the loop at once."""

STOP_REPLY_MS = 40 * TICK_MS
"""What `stop` waits beyond the grace for the keeper's record of the end before it says that nobody answers."""

READY_TIMEOUT_MS = 240 * TICK_MS
"""Default time an agent has to prove itself up; a real CLI needs 0.3-5 s, a cold disk more."""

CAPTURE_TIMEOUT_MS = 120 * TICK_MS
"""How long a keeper looks for the session id that a CLI prints; after that the agent cannot be resumed by id."""

RESTART_STEP_MS = 2 * TICK_MS
"""First backoff after the free first restart; doubles from there."""

RESTART_MAX_MS = 60_000
"""Ceiling of the restart backoff."""

STARTS_PER_TURN = 16
"""How many agents are started before the loop looks at its beat again, so that a burst of starts delays no beat."""

RESUMABLE_RETENTION_MS = 30 * 24 * 3600 * 1000
"""Resumable, adopted and undelivered records are kept this long."""

ENDED_RETENTION_MS = 24 * 3600 * 1000
"""A closed entry whose end was delivered stays a day, so that `logs` and `show` work the next morning."""

AGE_SLACK_MS = 24 * 3600 * 1000
"""A record that is dated further ahead than this has no age: no clock is set back a day without anybody noticing."""

FORWARDING_TIMEOUT_MS = 600_000
"""Default of `asks.forwarding_timeout_ms` (pi's figure): how long an ask waits for somebody to decide."""

LOCK_WAIT_MS = 40 * TICK_MS
"""How long a writer waits for another's record lock; holders keep it for well under a millisecond."""
