"""Decides the next call of a worker that pumps a shard, and judges the clock of Redis. Pure.

A call ran between sending and answer, so each answer bounds the difference of the two clocks from both sides.
"""

import math
import random
from dataclasses import dataclass, field

#: Life of a lock, and pauses between renewals: while pumping, and while the clock is not trusted.
LOCK_S, RENEW_S, CLOSELY_S = 10.0, 4.0, 1.0
#: Pauses before the next claim: of a shard that a timer owns, after an error, and at most after the end of a lock.
WATCH_S, CLAIM_RETRY_S, SPREAD_S = 5.0, 1.0, 0.5
#: Maximum pause between pumps: the safety net. Pauses after a pump that left a due message in place, and after a failed pump,
#: doubled after each further failure.
POLL_S, STUCK_S, RETRY_S, MAX_RETRY_S = 8.0, 0.005, 0.02, 1.0
#: Pause after any other pump, in which due messages gather: a call costs Python more time than Redis.
PACE_S = 0.002
#: Maximum step of a trusted clock, additional time for a call, and time that a clock has to be steady after a larger step.
MAX_STEP_S, TRIP_S, STEADY_S = 1.0, 0.1, 10.0


class Clock:
    """The clock of the Redis of a shard, against the local monotonic clock."""

    def __init__(self) -> None:
        #: Redis's clock minus the local clock. The clock of a Redis that takes over has to fit.
        self.ahead_s = math.nan
        self._steady_from_s = math.inf
        self.is_jumped = False

    def hear(self, redis_us: int, sent_s: float, answered_s: float) -> None:
        """Takes the time that Redis read during a call."""
        low_s, high_s = redis_us / 1e6 - answered_s, redis_us / 1e6 - sent_s
        is_jump = max(low_s - self.ahead_s, self.ahead_s - high_s) > MAX_STEP_S
        if is_jump or math.isnan(self.ahead_s):
            self.ahead_s, self._steady_from_s = (low_s + high_s) / 2, answered_s
        self.ahead_s = min(max(self.ahead_s, low_s), high_s)
        self.is_jumped = is_jump or self.is_jumped and not self._is_steady(sent_s)

    def holds(self, is_held: bool, now_s: float) -> bool:
        """Reports whether the shard has to be held. A hold of an earlier owner ends once the clock is proven."""
        return self.is_jumped or is_held and not self._is_steady(now_s)

    def latest_ms(self, now_s: float) -> int:
        """Returns the latest time that a call sent now can find on this clock, unless it jumps."""
        return math.ceil((self.ahead_s + now_s + MAX_STEP_S + TRIP_S) * 1000)

    def _is_steady(self, now_s: float) -> bool:
        return now_s - self._steady_from_s >= STEADY_S


@dataclass
class Shard:
    """One shard of the deployment."""

    number: int
    #: The epoch of this worker's claim; None while another program owns the shard.
    epoch: int | None = None
    #: Times of the next and the last claim; the owner gave the shard back since the last claim.
    claim_s: float = 0.0
    claimed_s: float = 0.0
    is_freed: bool = False
    #: Time of the last answer to a pump, end of the rest before the next pump, and number of failures since.
    pumped_s: float = 0.0
    rest_s: float = 0.0
    failures: int = 0
    #: The next due time by the last answer, and the soonest due time reported since the last pump was sent.
    due_ms: float = 0.0
    woken_ms: float = math.inf
    is_held: bool = False
    clock: Clock = field(default_factory=Clock)

    def next(self, now_s: float) -> tuple[str, float]:
        """Returns the next call, and the time of sending."""
        if self.epoch is None:
            return "claim", self.claim_s
        is_held = self.clock.holds(self.is_held, now_s)
        if is_held != self.is_held:
            return "hold", self.rest_s
        due_s = min(self.due_ms, self.woken_ms) / 1000 - self.clock.ahead_s
        pump_s = max(min(due_s, self.pumped_s + POLL_S), self.rest_s)
        return ("claim", self.claim_s) if is_held or self.claim_s < pump_s else ("pump", pump_s)

    def sends(self, verb: str) -> None:
        """Takes note of a call. Later reports may be younger than the answer."""
        if verb == "claim":
            self.is_freed = False
        elif verb == "pump":
            self.woken_ms = math.inf

    def woken(self, report: bytes, now_s: float) -> None:
        """Takes a report: a due time, `free` where the owner gave the shard back, or 0 where reports may be lost."""
        if report.isdigit():
            self.woken_ms = min(self.woken_ms, int(report))
        if self.epoch is None and report in (b"free", b"0"):
            self.is_freed, self.claim_s = True, now_s

    def own(self, epoch: int, sent_s: float) -> None:
        """Takes the epoch of a claim. Only a pump tells whether an earlier owner left the shard held."""
        if self.epoch is None:
            self.pumped_s = sent_s
        if epoch != self.epoch:
            self.epoch, self.due_ms, self.rest_s, self.is_held = epoch, 0.0, 0.0, False
        self.claimed_s = sent_s
        self._plan_renewal()

    def lose(self, now_s: float, lock_s: float | None = None) -> None:
        """Leaves the shard to the owner until the lock ends; without a lock, to a timer."""
        # Random, so that workers do not claim in step. An answer may be older than a report.
        rest_s = WATCH_S if lock_s is None else lock_s + random.uniform(0, SPREAD_S)
        self.epoch, self.claim_s = None, now_s + (0.0 if self.is_freed else rest_s)

    def answer(self, due_ms: float, is_held: bool, is_stuck: bool, now_s: float) -> None:
        """Takes the answer of a pump or of a hold. A pump is stuck if a due message was left in place."""
        self.pumped_s, self.due_ms, self.failures, self.is_held = now_s, due_ms, 0, is_held
        self.rest_s = now_s + (STUCK_S if is_stuck else PACE_S)
        self._plan_renewal()

    def fail(self, verb: str, now_s: float) -> None:
        """Rests after a failed call; after a pump or hold longer each time."""
        if verb == "claim":
            self.claim_s = now_s + CLAIM_RETRY_S
            self.claimed_s = self.claim_s - RENEW_S
            return
        self.rest_s, self.due_ms = now_s + min(RETRY_S * 2**self.failures, MAX_RETRY_S), 0.0
        self.failures = min(self.failures + 1, 16)

    def _plan_renewal(self) -> None:
        """Plans the next renewal. The lock of a worker that cannot pump ends, and another worker comes first."""
        self.claim_s = self.claimed_s + (CLOSELY_S if self.is_held else RENEW_S)
        if not self.is_held and self.claim_s - self.pumped_s >= LOCK_S:
            self.claim_s = self.claimed_s + 2 * LOCK_S
