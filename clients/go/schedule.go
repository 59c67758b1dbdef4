// Decides the next call of a worker that pumps a shard, and judges the clock of Redis. Pure.
//
// A call ran between sending and answer, so each answer bounds the difference of the two clocks from both sides. Times in ms are
// on Redis's clock; other times are ms on the local monotonic clock.

package delayq

import (
	"math"
	"math/rand"
	"strconv"
)

const (
	// Life of a lock, and pauses between renewals: while pumping, and while the clock is not trusted.
	lockMs, renewAfter, renewClosely = 10_000, 4_000.0, 1_000.0
	// Pauses before the next claim: of a shard that a timer owns, after an error, and at most after the end of a lock.
	watchAfter, claimRetry, maxSpread = 5_000.0, 1_000.0, 500.0
	// Maximum pause between pumps: the safety net. Pauses after a pump that left a due message in place, and after a failed
	// pump, doubled after each further failure.
	pollAfter, stuckFor, retryAfter, maxRetry = 8_000.0, 5.0, 20.0, 1_000.0
	// Maximum step of a trusted clock, additional time for a call, and time that a clock has to be steady after a larger step.
	maxStep, maxTrip, steadyFor = 1_000.0, 100.0, 10_000.0
)

// redisClock is the clock of the Redis of a shard.
type redisClock struct {
	isHeard, isJumped bool
	// aheadMs is Redis's clock minus the local clock. The clock of a Redis that takes over has to fit.
	aheadMs    float64
	steadyFrom float64
}

// hear takes the time that Redis read during a call.
func (c *redisClock) hear(redisUs int64, sent, answered float64) {
	low, high := float64(redisUs)/1000-answered, float64(redisUs)/1000-sent
	isJump := c.isHeard && math.Max(low-c.aheadMs, c.aheadMs-high) > maxStep
	if isJump || !c.isHeard {
		c.aheadMs, c.steadyFrom = (low+high)/2, answered
	}
	c.aheadMs, c.isHeard = math.Min(math.Max(c.aheadMs, low), high), true
	c.isJumped = isJump || c.isJumped && !c.isSteady(sent)
}

// holds reports whether the shard has to be held. A hold of an earlier owner ends once the clock is proven.
func (c *redisClock) holds(isHeld bool, now float64) bool {
	return c.isJumped || isHeld && !c.isSteady(now)
}

// latestMs returns the latest time that a call sent now can find on this clock, unless it jumps.
func (c *redisClock) latestMs(now float64) int64 {
	return int64(math.Ceil(c.aheadMs + now + maxStep + maxTrip))
}

func (c *redisClock) isSteady(now float64) bool { return now-c.steadyFrom >= steadyFor }

// shard is one shard of the deployment.
type shard struct {
	clock redisClock
	// epoch is the epoch of this worker's claim; without a claim, another program owns the shard.
	isOwned bool
	epoch   int64
	// mark is the mark of the last pump, which reveals a Redis that came back with older data.
	mark string
	// claimAt and claimed are the times of the next and the last claim; isFreed: the owner gave the shard back since.
	claimAt, claimed float64
	isFreed          bool
	// pumped is the time of the last answer to a pump, restUntil the end of the rest before the next pump.
	pumped, restUntil float64
	failures          int
	// dueMs is the next due time by the last answer, wokenMs the soonest due time reported since the last pump was sent.
	dueMs, wokenMs float64
	isHeld         bool
}

func newShard() *shard { return &shard{wokenMs: math.Inf(1)} }

// next returns the next call, and the time of sending.
func (s *shard) next(now float64) (verb string, at float64) {
	if !s.isOwned {
		return "claim", s.claimAt
	}
	isHeld := s.clock.holds(s.isHeld, now)
	if isHeld != s.isHeld {
		return "hold", s.restUntil
	}
	due := math.Min(s.dueMs, s.wokenMs) - s.clock.aheadMs
	pump := math.Max(math.Min(due, s.pumped+pollAfter), s.restUntil)
	if isHeld || s.claimAt < pump {
		return "claim", s.claimAt
	}
	return "pump", pump
}

// sends takes note of a call. Later reports may be younger than the answer.
func (s *shard) sends(verb string) {
	switch verb {
	case "claim":
		s.isFreed = false
	case "pump":
		s.wokenMs = math.Inf(1)
	}
}

// woken takes a report: a due time, "free" where the owner gave the shard back, or 0 where reports may be lost.
func (s *shard) woken(report string, now float64) {
	if due, err := strconv.ParseFloat(report, 64); err == nil {
		s.wokenMs = math.Min(s.wokenMs, due)
	}
	if !s.isOwned && (report == "free" || report == "0") {
		s.isFreed, s.claimAt = true, now
	}
}

// own takes the epoch of a claim. Only a pump tells whether an earlier owner left the shard held.
func (s *shard) own(epoch int64, sent float64) {
	if !s.isOwned {
		s.pumped = sent
	}
	if !s.isOwned || epoch != s.epoch {
		s.isOwned, s.epoch, s.dueMs, s.restUntil, s.isHeld = true, epoch, 0, 0, false
	}
	s.claimed = sent
	s.planRenewal()
}

// lose leaves the shard to the owner for a while.
func (s *shard) lose(now, rest float64) {
	if s.isFreed { // the answer may be older than the report
		rest = 0
	}
	s.isOwned, s.claimAt = false, now+rest
}

// answer takes the answer of a pump or of a hold. A pump is stuck if a due message was left in place.
func (s *shard) answer(dueMs float64, isHeld, isStuck bool, now float64) {
	s.pumped, s.dueMs, s.failures, s.isHeld, s.restUntil = now, dueMs, 0, isHeld, 0
	if isStuck {
		s.restUntil = now + stuckFor
	}
	s.planRenewal()
}

// fail rests after a failed call; after a pump or hold longer each time.
func (s *shard) fail(verb string, now float64) {
	if verb == "claim" {
		s.claimAt = now + claimRetry
		s.claimed = s.claimAt - renewAfter
		return
	}
	s.restUntil, s.dueMs = now+math.Min(math.Ldexp(retryAfter, s.failures), maxRetry), 0
	if s.failures < 16 {
		s.failures++
	}
}

// planRenewal plans the next renewal. The lock of a worker that cannot pump ends, and another worker comes first.
func (s *shard) planRenewal() {
	switch s.claimAt = s.claimed + renewAfter; {
	case s.isHeld:
		s.claimAt = s.claimed + renewClosely
	case s.claimAt-s.pumped >= lockMs:
		s.claimAt = s.claimed + 2*lockMs
	}
}

// afterLock returns how long to leave a shard to the owner of a lock: a little longer, so that workers do not claim in step.
func afterLock(left int64) float64 { return float64(left) + rand.Float64()*maxSpread }
