// Policies of topics: defaults for messages, and flow control.

package delayq

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Policy has the settings of a topic. A nil field has the default or, in a patch, does not change.
type Policy struct {
	// MaxAttempts limits attempts: 16 by default, 0 for no limit.
	MaxAttempts *uint16
	// Lease is 1 ms to 24 h; 30 s by default.
	Lease *time.Duration
	// Backoff is Exponential(time.Second, 10*time.Minute) by default.
	Backoff *Backoff
	// ExpireAfter is the time from due time to expiry; 0, the default, means never.
	ExpireAfter *time.Duration
	// RememberCancelled, RememberOwn and RememberGenerated are the retention of finished ids for deduplication: cancelled (1 h
	// by default), own (60 s) and generated ids (0).
	RememberCancelled, RememberOwn, RememberGenerated *time.Duration
	// Repeats handles a repeated put whose first attempt may be forgotten: "deliver" (default) or "refuse".
	Repeats *string
	// Codec is the compression of Rust clients: "none" (default), "zstd" or "zstd:<dictionary>".
	Codec *string
	// Paused stops deliveries.
	Paused *bool
	// Rate limits deliveries per second over all shards; unlimited by default.
	Rate *float64
	// History is the approximate number of events per shard kept for delayq log: at most 100,000; 0 by default.
	History *uint32
	// HistoryFor is the retention of events: at least 1 s; 7 days by default.
	HistoryFor *time.Duration
	// DeadFor is the retention of dead letters; 0, the default, keeps dead letters until purged or replayed.
	DeadFor *time.Duration
	// DeadMax limits dead letters per shard, oldest deleted first; 0, the default, means no limit.
	DeadMax *uint32
	// Durability is the confirmation required for writes: "memory" (default), "disk" (append-only file of the master) or
	// "replica:1" to "replica:9" (number of replicas).
	Durability *string
}

// Set returns a pointer to a value, for a field of a Policy.
func Set[T any](value T) *T { return &value }

// Setting names a field of a Policy.
type Setting string

// Fields of a Policy.
const (
	SettingMaxAttempts       Setting = "max_attempts"
	SettingLease             Setting = "lease_ms"
	SettingBackoff           Setting = "backoff"
	SettingExpireAfter       Setting = "expire_after_ms"
	SettingRememberCancelled Setting = "remember_cancelled_ms"
	SettingRememberOwn       Setting = "remember_own_ms"
	SettingRememberGenerated Setting = "remember_generated_ms"
	SettingRepeats           Setting = "repeats"
	SettingCodec             Setting = "codec"
	SettingPaused            Setting = "paused"
	SettingRate              Setting = "rate"
	SettingHistory           Setting = "history"
	SettingHistoryFor        Setting = "history_for_ms"
	SettingDeadFor           Setting = "dead_for_ms"
	SettingDeadMax           Setting = "dead_max"
	SettingDurability        Setting = "durability"
)

// Policy returns the settings that differ from the defaults.
func (t Topic) Policy(ctx context.Context) (policy Policy, err error) {
	shards, err := t.client.shards(ctx)
	if err = first(t.err, err); err != nil {
		return policy, err
	}
	reply, err := t.client.one(ctx, "describe", 0, t.name)
	for ; err == nil && len(reply) > 2; reply = reply[2:] {
		policy.read(Setting(reply[1].(string)), reply[2].(string), shards)
	}
	return policy, err
}

// SetPolicy applies a patch, resets the named settings to the defaults, and returns the whole policy.
func (t Topic) SetPolicy(ctx context.Context, patch Policy, reset ...Setting) (Policy, error) {
	err := first(t.err, patch.check())
	for _, one := range reset {
		if !settingForm.MatchString(string(one)) {
			err = first(err, InvalidMessage(fmt.Sprintf("%.40q is not a setting: one of the constants Setting…", one)))
		}
	}
	if err == nil {
		var shards int
		shards, err = t.client.shards(ctx)
		err = first(err, patch.checkRate(shards))
	}
	if err == nil {
		_, err = t.client.everywhere(ctx, "configure", func(shards int) []any {
			args := append([]any{t.stored}, patch.settings(shards)...)
			for _, one := range reset {
				args = append(args, string(one), "")
			}
			return args
		})
	}
	if err != nil {
		return Policy{}, err
	}
	return t.Policy(ctx)
}

func (p *Policy) check() (err error) {
	for _, span := range []*time.Duration{p.Lease, p.ExpireAfter, p.RememberCancelled, p.RememberOwn, p.RememberGenerated,
		p.HistoryFor, p.DeadFor} {
		if span != nil {
			err = first(err, checkSpan("a span of a policy", *span))
		}
	}
	if p.Backoff != nil {
		err = first(err, p.Backoff.err)
	}
	err = first(err, p.checkRate(1))
	if p.Lease != nil && (*p.Lease <= 0 || *p.Lease > 24*time.Hour) {
		err = first(err, InvalidMessage(fmt.Sprintf("a lease of %v: above 0, at most 24h", *p.Lease)))
	}
	if p.HistoryFor != nil && *p.HistoryFor < time.Second {
		err = first(err, InvalidMessage(fmt.Sprintf("HistoryFor is %v: at least 1s", *p.HistoryFor)))
	}
	if p.History != nil && *p.History > 100_000 {
		err = first(err, InvalidMessage(fmt.Sprintf("History is %d: at most 100,000", *p.History)))
	}
	for what, text := range map[string]*string{"Repeats": p.Repeats, "Codec": p.Codec, "Durability": p.Durability} {
		if text != nil && !policyForms[what].MatchString(*text) {
			err = first(err, InvalidMessage(fmt.Sprintf("%s is %.40q: %s", what, *text, policyForms[what])))
		}
	}
	return err
}

// checkRate refuses a rate whose part for one of so many shards cannot be stored.
func (p *Policy) checkRate(shards int) error {
	if p.Rate == nil || *p.Rate/float64(shards) >= 1e-9 && *p.Rate <= 1e9 {
		return nil
	}
	return InvalidMessage(fmt.Sprintf("a rate of %v: messages a second, at least 1e-9 in each shard and at most 1e9", *p.Rate))
}

var policyForms = map[string]*regexp.Regexp{
	"Repeats":    regexp.MustCompile(`^(deliver|refuse)$`),
	"Codec":      regexp.MustCompile(`^(none|zstd|zstd:\d{1,10})$`),
	"Durability": regexp.MustCompile(`^(memory|disk|replica:[1-9])$`),
}

var settingForm = regexp.MustCompile(`^(max_attempts|lease_ms|backoff|expire_after_ms|remember_(cancelled|own|generated)_ms|repeats|` +
	`codec|paused|rate|history|history_for_ms|dead_for_ms|dead_max|durability)$`)

func (p *Policy) spans() map[Setting]**time.Duration {
	return map[Setting]**time.Duration{SettingLease: &p.Lease, SettingExpireAfter: &p.ExpireAfter,
		SettingRememberCancelled: &p.RememberCancelled, SettingRememberOwn: &p.RememberOwn,
		SettingRememberGenerated: &p.RememberGenerated, SettingHistoryFor: &p.HistoryFor,
		SettingDeadFor: &p.DeadFor}
}

// settings encodes a patch for configure, in one of so many shards.
func (p *Policy) settings(shards int) (args []any) {
	add := func(setting Setting, value any) { args = append(args, string(setting), value) }
	if p.MaxAttempts != nil {
		add(SettingMaxAttempts, *p.MaxAttempts)
	}
	for setting, span := range p.spans() {
		if *span != nil {
			add(setting, wholeMillis(**span))
		}
	}
	if p.Backoff != nil {
		add(SettingBackoff, p.Backoff.spec)
	}
	if p.Repeats != nil {
		add(SettingRepeats, *p.Repeats)
	}
	if p.Codec != nil {
		add(SettingCodec, *p.Codec)
	}
	if p.Paused != nil {
		add(SettingPaused, map[bool]string{true: "1"}[*p.Paused])
	}
	if p.Rate != nil {
		add(SettingRate, strconv.FormatFloat(*p.Rate/float64(shards), 'f', 9, 64))
	}
	if p.History != nil {
		add(SettingHistory, *p.History)
	}
	if p.DeadMax != nil {
		add(SettingDeadMax, *p.DeadMax)
	}
	if p.Durability != nil {
		add(SettingDurability, *p.Durability)
	}
	return args
}

func (p *Policy) read(setting Setting, value string, shards int) {
	if span, is := p.spans()[setting]; is {
		*span = Set(time.Duration(atoi(value)) * time.Millisecond)
		return
	}
	switch setting {
	case SettingMaxAttempts:
		p.MaxAttempts = Set(uint16(atoi(value)))
	case SettingHistory:
		p.History = Set(uint32(atoi(value)))
	case SettingDeadMax:
		p.DeadMax = Set(uint32(atoi(value)))
	case SettingBackoff:
		p.Backoff = Set(backoffOf(value))
	case SettingRepeats:
		p.Repeats = &value
	case SettingCodec:
		p.Codec = &value
	case SettingDurability:
		p.Durability = &value
	case SettingPaused:
		p.Paused = Set(true)
	case SettingRate:
		rate, _ := strconv.ParseFloat(value, 64)
		rate, _ = strconv.ParseFloat(strconv.FormatFloat(rate*float64(shards), 'g', 9, 64), 64)
		p.Rate = &rate
	}
}
