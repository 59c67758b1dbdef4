// The tables of the protocol: limits, names, states, words, URLs, settings.
// Code generated from the tables of delayq-core by `DELAYQ_UPDATE=1 cargo test -p delayq-core --test answers -- description`. DO NOT EDIT.

package delayq

import (
	"regexp"
	"strconv"
	"time"
)

const (
	maxIDsACall            = 500
	maxBytesACall          = 4194304
	maxPayloadBytes        = 1048576
	maxHeaderBytes         = 16384
	maxReasonBytes         = 1000
	maxAttempts            = 65535
	maxDelayMs             = 4294967295
	maxDelays              = 32
	maxLeaseMs             = 86400000
	maxSpanMs              = 4503599627370496
	maxTimeMs              = 9007199254740991
	maxShards              = 4096
	maxConcurrency         = 10000
	maxTimeoutMs           = 86400000
	firstMeantMs           = 978307200000
	lastMeantMs            = 253402300799999
	defaultNamespace       = "dq"
	defaultMaxPayloadBytes = 262144
	defaultConcurrency     = 10
)

// Words of outcomes and states of messages; the README lists the words of each verb. Unanswered is the word of a missing
// answer: unless the error is a ScriptError, the call may have been carried out.
const (
	Stored         = "stored"
	Ready          = "ready"
	Again          = "again"
	Exists         = "exists"
	Conflict       = "conflict"
	Changed        = "changed"
	Unknown        = "unknown"
	Leased         = "leased"
	Stale          = "stale"
	Refused        = "refused"
	Cancelled      = "cancelled"
	Dead           = "dead"
	Finished       = "finished"
	Failed         = "failed"
	Delayed        = "delayed"
	Extended       = "extended"
	Expired        = "expired"
	Delivered      = "delivered"
	Buried         = "buried"
	ExpiredMessage = "expired-message"
	NotDead        = "not-dead"
	Purged         = "purged"
	Unanswered     = "unanswered"
)

// accepted has the words of success; a message that exists may be lost.
var accepted = []Word{Stored, Ready, Again, Exists, Cancelled, Delayed, Extended, Delivered, Buried, ExpiredMessage}

// writes wait as the topic requires, groupWrites as every topic of the shard requires.
var (
	writes      = map[string]bool{"cancel": true, "finish": true, "operate": true, "put": true, "reschedule": true}
	groupWrites = map[string]bool{"cancel_group": true, "shift_group": true}
)

// states has the states by stored number, from 1 on.
var states = []State{Delayed, Ready, Leased, Dead, Delivered, Cancelled, Expired, Purged}

// lost has the states of existing messages that are not delivered.
var lost = []State{Cancelled, Expired, Purged}

// Flags of an envelope.
const (
	flagHash     = 1
	flagExpires  = 2
	flagBackoff  = 4
	flagGroup    = 8
	flagHeaders  = 16
	flagZstd     = 32
	flagDoomed   = 64
	flagReason   = 128
	flagRelative = 256
	flagLifetime = 4096
	flagFirst    = 512
	flagHeld     = 1024
	flagPaused   = 2048
	flagBlocks   = 16384
	flagBlocked  = 32768
)

// knownFlags has every flag above; further flags come from a later version.
const knownFlags = 57343

// nameForm has the characters of a kind of name, and the maximum number of bytes.
type nameForm struct {
	characters *regexp.Regexp
	maxBytes   int
}

var nameForms = map[string]nameForm{
	"id":          {regexp.MustCompile(`^\P{Cc}+$`), 128},
	"topic":       {regexp.MustCompile(`^[A-Za-z0-9._/-]+$`), 128},
	"group":       {regexp.MustCompile(`^\P{Cc}+$`), 128},
	"namespace":   {regexp.MustCompile(`^[A-Za-z0-9_-]+$`), 32},
	"node":        {regexp.MustCompile(`^[A-Za-z0-9_-]+$`), 32},
	"header name": {regexp.MustCompile(`^[!-~]+$`), 255},
	"token":       {regexp.MustCompile(`^\P{Cc}+$`), 128},
}

var generatedID = regexp.MustCompile(`(?i)^~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}$`)

// Keys and channels of a shard.
const (
	metaKey    = "meta"
	neverKey   = "never"
	wakeKey    = "wake"
	readyKey   = "ready"
	workersKey = "workers:"
)

// keyOf returns a key or channel of a shard.
func keyOf(namespace string, shard int, name string) string {
	return "{" + namespace + ":" + strconv.Itoa(shard) + "}:" + name
}

// urlForm is one form of a URL: a host in words, its default port, the form in words, the parameters of the query.
type urlForm struct {
	schemes []string
	what    string
	port    int
	shape   string
	query   []string
}

var urlForms = map[string]urlForm{
	"single":   {[]string{"redis://", "rediss://"}, "Redis", 6379, "expected redis://[user[:password]@]host[:port][/db], rediss://… for TLS, or unix:///path[?db=N]", []string{"db"}},
	"socket":   {[]string{"unix://", "redis+unix://"}, "socket", 0, "expected unix:///path[?db=N]", []string{"db", "user", "pass"}},
	"sentinel": {[]string{"redis+sentinel://", "rediss+sentinel://"}, "sentinel", 26379, "expected redis+sentinel://host:port,host:port/service", []string{"db"}},
	"cluster":  {[]string{"redis+cluster://", "rediss+cluster://"}, "node of a cluster", 6379, "expected redis+cluster://host:port,host:port", nil},
}

// Policy has the settings of a topic. A nil field has the default or, in a patch, does not change.
type Policy struct {
	// MaxAttempts: Maximum attempts; 0 for no limit (at most 65535). Default 16.
	MaxAttempts *uint16
	// Lease: How long a lease lasts (1ms to 1day). Default 30s.
	Lease *time.Duration
	// Backoff: Delay before another attempt (1ms to 49days each). Default 1s..10m.
	Backoff *Backoff
	// ExpireAfter: Time from due to expiry; 0 for never. Default 0s.
	ExpireAfter *time.Duration
	// RememberCancelled: How long a cancelled id is kept for deduplication. Default 1h.
	RememberCancelled *time.Duration
	// RememberOwn: How long a finished id of the producer's own is kept for deduplication. Default 1m.
	RememberOwn *time.Duration
	// RememberGenerated: How long a finished generated id is kept for deduplication. Default 0s.
	RememberGenerated *time.Duration
	// Repeats: Handling of a repeated put whose first try may have finished and been forgotten: deliver (perhaps twice) or refuse
	// (perhaps never). Default deliver.
	Repeats *string
	// Codec: Compression of payloads, by clients that compress: none, zstd, or zstd:ID of a dictionary. Default none.
	Codec *string
	// History: Approximate number of events that each shard keeps for delayq log; 0 for none (at most 100000). Default 0.
	History *uint32
	// HistoryFor: How long events are kept (at least 1s). Default 7days.
	HistoryFor *time.Duration
	// DeadFor: How long a dead letter is kept before a sweep deletes it; 0 until it is purged or replayed. Default 0s.
	DeadFor *time.Duration
	// DeadMax: Maximum dead letters of each shard, of which sweeps delete the oldest; 0 for no limit. Default 0.
	DeadMax *uint32
	// GroupInFlight: Maximum messages of a group that are leased at the same time: 1 delivers a group in order, one after the
	// other; 0 for no limit (at most 65535). Default 0.
	GroupInFlight *uint16
	// GroupFailed: Handling of a group's other messages while one of them has failed: pass (they are delivered meanwhile) or block
	// (they wait until it has finished). Default pass.
	GroupFailed *string
	// GroupRate: Maximum messages of a group that are handed out in a second, minute or hour, evenly: 5/s, 90/m, 1000/h; 0 for no
	// limit. Default 0.
	GroupRate *string
	// GroupOrder: Order in which ready messages are handed out: ready (as they became ready) or fair (the groups take turns, so
	// that many messages of one group do not delay those of another). Default ready.
	GroupOrder *string
	// Durability: Confirmation that puts, cancels and reschedules wait for: memory (none), disk (the master's append-only file,
	// synced; needs Redis 7.2), or replica:N (N replicas, 1 to 9, have the write). Default memory.
	Durability *string
	// Paused: Stops deliveries. Default false.
	Paused *bool
	// Rate: Maximum deliveries per second over all shards (1e-9 to 1e9 in each shard). Default unlimited.
	Rate *float64
}

// Setting names a field of a Policy.
type Setting string

// Fields of a Policy.
const (
	SettingMaxAttempts       = Setting("max_attempts")
	SettingLease             = Setting("lease_ms")
	SettingBackoff           = Setting("backoff")
	SettingExpireAfter       = Setting("expire_after_ms")
	SettingRememberCancelled = Setting("remember_cancelled_ms")
	SettingRememberOwn       = Setting("remember_own_ms")
	SettingRememberGenerated = Setting("remember_generated_ms")
	SettingRepeats           = Setting("repeats")
	SettingCodec             = Setting("codec")
	SettingHistory           = Setting("history")
	SettingHistoryFor        = Setting("history_for_ms")
	SettingDeadFor           = Setting("dead_for_ms")
	SettingDeadMax           = Setting("dead_max")
	SettingGroupInFlight     = Setting("group_in_flight")
	SettingGroupFailed       = Setting("group_failed")
	SettingGroupRate         = Setting("group_rate")
	SettingGroupOrder        = Setting("group_order")
	SettingDurability        = Setting("durability")
	SettingPaused            = Setting("paused")
	SettingRate              = Setting("rate")
)

// settingForm describes a setting: name, type, range, and the form of a word.
type settingForm struct {
	setting     Setting
	name, kind  string
	least, most float64
	word        *regexp.Regexp
}

var settingForms = []settingForm{
	{SettingMaxAttempts, "MaxAttempts", "count", 0, 65535, nil},
	{SettingLease, "Lease", "span", 1, 86400000, nil},
	{SettingBackoff, "Backoff", "backoff", 0, 0, nil},
	{SettingExpireAfter, "ExpireAfter", "span", 0, 4503599627370496, nil},
	{SettingRememberCancelled, "RememberCancelled", "span", 0, 4503599627370496, nil},
	{SettingRememberOwn, "RememberOwn", "span", 0, 4503599627370496, nil},
	{SettingRememberGenerated, "RememberGenerated", "span", 0, 4503599627370496, nil},
	{SettingRepeats, "Repeats", "word", 0, 0, regexp.MustCompile(`^(deliver|refuse)$`)},
	{SettingCodec, "Codec", "word", 0, 0, regexp.MustCompile(`^(none|zstd|zstd:[0-9]{1,10})$`)},
	{SettingHistory, "History", "count", 0, 100000, nil},
	{SettingHistoryFor, "HistoryFor", "span", 1000, 4503599627370496, nil},
	{SettingDeadFor, "DeadFor", "span", 0, 4503599627370496, nil},
	{SettingDeadMax, "DeadMax", "count", 0, 4294967295, nil},
	{SettingGroupInFlight, "GroupInFlight", "count", 0, 65535, nil},
	{SettingGroupFailed, "GroupFailed", "word", 0, 0, regexp.MustCompile(`^(pass|block)$`)},
	{SettingGroupRate, "GroupRate", "word", 0, 0, regexp.MustCompile(`^(0|[1-9][0-9]{0,6}/[smh])$`)},
	{SettingGroupOrder, "GroupOrder", "word", 0, 0, regexp.MustCompile(`^(ready|fair)$`)},
	{SettingDurability, "Durability", "word", 0, 0, regexp.MustCompile(`^(memory|disk|replica:[1-9])$`)},
	{SettingPaused, "Paused", "flag", 0, 0, nil},
	{SettingRate, "Rate", "rate", 1e-9, 1e9, nil},
}
