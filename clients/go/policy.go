// A topic's policy: what its messages fall back to, and how they flow.

package delayq

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Policy is what a topic's messages fall back to. What is nil is at its default or, in a patch, stays as it is.
type Policy struct {
	// MaxAttempts is 0 for no bound; 16 by default.
	MaxAttempts *uint16
	// Lease is 1 ms to a day; 30 s by default.
	Lease *time.Duration
	// Backoff is Exponential(time.Second, 10*time.Minute) by default.
	Backoff *Backoff
	// ExpireAfter is how long after its due time a message expires; 0, the default: never.
	ExpireAfter *time.Duration
	// RememberCancelled, RememberOwn and RememberGenerated are how long a finished id is remembered: a cancelled one
	// (1 h by default), one of the producer's own (60 s) and a generated one (0).
	RememberCancelled, RememberOwn, RememberGenerated *time.Duration
	// Repeats is what becomes of a repeated put that may have been forgotten: "deliver", the default, or "refuse".
	Repeats *string
	// Codec is how Rust's clients compress payloads: "none", the default, "zstd" or "zstd:<dictionary>".
	Codec *string
	// Paused topics hand nothing out.
	Paused *bool
	// Rate is how many messages a second all shards hand out together at most; unbounded by default.
	Rate *float64
	// History is about how many events each shard keeps of what happened to messages, for delayq log: at most 100,000;
	// none by default.
	History *uint32
	// HistoryFor is how long it keeps them: at least 1 s; 7 days by default.
	HistoryFor *time.Duration
	// DeadFor is how long a dead letter is kept, until a sweep deletes it; 0, the default: until it is purged or replayed.
	DeadFor *time.Duration
	// DeadMax is how many dead letters each shard keeps: sweeps delete the oldest of more; 0, the default: all.
	DeadMax *uint32
	// Durability is what writes are answered after: "memory", the default, "disk" (the master's append-only file) or
	// "replica:1" to "replica:9" (so many replicas).
	Durability *string
}

// Set makes a pointer to a value, for a field of a Policy.
func Set[T any](value T) *T { return &value }

// Setting names a field of a Policy.
type Setting string

// The fields of a Policy.
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

// Policy gives its policy.
func (t Topic) Policy(ctx context.Context) (policy Policy, err error) {
	shards, err := t.client.shards(ctx)
	if err = first(t.err, err); err != nil {
		return policy, err
	}
	reply, err := t.client.one(ctx, "describe", 0, t.stored)
	for ; err == nil && len(reply) > 1; reply = reply[2:] {
		policy.read(Setting(reply[0].(string)), reply[1].(string), shards)
	}
	return policy, err
}

// SetPolicy changes its policy by a patch, and sets what is named back to its default. It answers with the whole
// policy.
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

// spans are the fields that are durations.
func (p *Policy) spans() map[Setting]**time.Duration {
	return map[Setting]**time.Duration{SettingLease: &p.Lease, SettingExpireAfter: &p.ExpireAfter,
		SettingRememberCancelled: &p.RememberCancelled, SettingRememberOwn: &p.RememberOwn,
		SettingRememberGenerated: &p.RememberGenerated, SettingHistoryFor: &p.HistoryFor,
		SettingDeadFor: &p.DeadFor}
}

// settings are what configure takes of a patch, for one shard of so many.
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

// read reads one field of what one shard of so many has.
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
