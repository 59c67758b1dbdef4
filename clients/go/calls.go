// Groups items into script calls and finds the shard of each item.

package delayq

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of one call, and of the calls sent together.
const maxCalls = 64

// layout has the shard counts of every layout of the deployment, newest last, as text ("64,128,") and parsed.
type layout struct {
	text   string
	counts []int
	number int
}

// unknown is the layout of a new client: every shard refuses layout 0 and names the current layout.
var unknown = &layout{counts: []int{1}}

func layoutOf(text string) *layout {
	theirs := &layout{text: text + ","}
	_ = json.Unmarshal([]byte("["+text+"]"), &theirs.counts)
	theirs.number = len(theirs.counts)
	return theirs
}

type item struct {
	// name is the raw id or the group that places the item. Receipts have no name and no topic.
	name, topic string
	// shared are arguments of the whole call, sent after the topic.
	shared, args []any
	bytes        int
	// places are the shards still to be searched.
	places  []int
	outcome Outcome
	// err is a fault of the arguments; an item with a fault is not sent.
	err error
	// fault is the reason for a missing answer.
	fault error
}

// named returns an item for a message. A generated id names the shard; an own id is placed by group, or by itself.
func named(topic, id, group string, args ...any) *item {
	stored, err := storedID(id, group)
	topic, fault := topicArg(topic)
	one := &item{name: stored, topic: topic, args: append([]any{stored}, args...), outcome: Outcome{ID: id}}
	one.err = first(err, fault)
	if group != "" && !generated(stored) {
		one.name = group
	}
	return one
}

type call struct {
	verb  string
	shard int
	args  []any
	items []*item
	bytes int
}

// answer has neither a reply nor an error if the shard had another layout, which the client adopted.
type answer struct {
	reply []any
	err   error
}

// each runs a verb for all items in as few calls as the limits allow. With an error, every item still has an outcome: the
// answers received, and Unanswered for the rest.
func (c *Client) each(ctx context.Context, verb string, items []*item) (outcomes []Outcome, err error) {
	for _, one := range items {
		if one.err != nil {
			return nil, one.err
		}
	}
	if ordered[verb] {
		messages := make([]string, len(items))
		for i, one := range items {
			messages[i] = one.order()
		}
		end, err := c.writes.begin(ctx, messages...)
		if err != nil {
			return unansweredOf(items), err
		}
		defer end()
	}
	for round, left := 0, items; round < maxRounds && len(left) > 0; round++ {
		lanes := map[string][]*item{}
		for _, one := range left {
			waits := c.durabilities.of(verb, one)
			lanes[waits] = append(lanes[waits], one)
		}
		left = nil
		for _, waits := range sortedKeys(lanes) { // those that wait for nothing first
			c.carryOut(ctx, verb, waits, lanes[waits])
			for _, one := range lanes[waits] {
				if c.durabilities.learn(one.topic, one.fault) {
					left = append(left, one)
				}
			}
		}
	}
	for _, one := range items {
		outcomes, err = append(outcomes, one.outcome), first(err, one.fault)
	}
	return outcomes, err
}

func unansweredOf(items []*item) (outcomes []Outcome) {
	for _, one := range items {
		outcomes = append(outcomes, Outcome{Word: Unanswered, ID: one.outcome.ID})
	}
	return outcomes
}

// single runs a verb for one item, batched with the calls of other callers. A write follows earlier writes of the same message.
func (c *Client) single(ctx context.Context, verb string, one *item) (outcome Outcome, err error) {
	if one.err != nil {
		return one.outcome, one.err
	}
	end := func() {}
	if ordered[verb] {
		if end, err = c.writes.begin(ctx, one.order()); err != nil {
			return Outcome{Word: Unanswered, ID: one.outcome.ID}, err
		}
	}
	var left <-chan struct{}
	for round := 0; round < maxRounds; round++ {
		outcome, left, err = c.gatherer(c.durabilities.of(verb, one)).add(ctx, verb, one)
		if !c.durabilities.learn(one.topic, err) {
			break
		}
	}
	if left == nil {
		end()
	} else {
		go func() {
			<-left
			end()
		}()
	}
	return outcome, err
}

// ordered are the verbs that keep their order for one message or one delivery.
var ordered = map[string]bool{"put": true, "cancel": true, "reschedule": true, "ack": true, "release": true, "bury": true}

// order returns the key that orders the writes of one message, or the settlements of one delivery.
func (one *item) order() string {
	if one.name == "" {
		return fmt.Sprint(one.places, "\n", one.args[0])
	}
	return one.topic + "\n" + one.outcome.ID
}

// carryOut fills in outcomes, or the reasons for missing answers, after the required confirmations.
func (c *Client) carryOut(ctx context.Context, verb, waits string, items []*item) {
	for _, one := range items {
		one.outcome.Word, one.fault = "", nil
	}
	_, err := c.shards(ctx)
	if err == nil {
		err = c.fill(ctx, verb, waits, items)
	}
	for _, one := range items {
		if one.outcome.Word == "" {
			one.outcome.Word, one.fault = Unanswered, first(one.fault, err)
		}
	}
}

// fill sends items in pipelines until every item has an outcome or no server answers.
func (c *Client) fill(ctx context.Context, verb, waits string, items []*item) error {
	var known *layout
	for left := items; len(left) > 0; {
		if now := c.layout.Load(); now != known { // they may belong elsewhere now
			known = now
			for _, one := range left {
				one.place(verb, known.counts)
			}
		}
		calls, rest := together(verb, left)
		left = rest
		var outage error
		isAnswered := false
		for i, answer := range c.send(ctx, known, waits, calls) {
			for _, one := range calls[i].items {
				one.fault = answer.err
			}
			_, refused := answer.err.(ScriptError)
			isAnswered = isAnswered || answer.err == nil || refused
			switch {
			case refused:
			case answer.err != nil:
				outage = first(outage, answer.err)
			case answer.reply == nil:
				left = append(left, calls[i].items...)
			default:
				left = append(left, read(calls[i].items, answer.reply)...)
			}
		}
		if outage != nil && !isAnswered {
			return outage
		}
	}
	return nil
}

// place sets the places of a named item. A put goes to the places of earlier layouts first and to the present place last.
func (one *item) place(verb string, counts []int) {
	if one.name != "" {
		one.places = placesOf(one.name, counts)
		if verb == "put" {
			one.places = append(one.places[1:], one.places[0])
		}
	}
}

// together groups items into calls, in order: one shard and topic per call, within the limits. The rest waits for the next
// pipeline.
func together(verb string, left []*item) (calls []call, rest []*item) {
	type like struct {
		shard, places int
		topic         string
	}
	latest := map[like]int{}
	for _, one := range left {
		kind := like{one.places[0], len(one.places), one.topic}
		at, known := latest[kind]
		if !known || len(calls[at].items) == maxIDsACall || calls[at].bytes+one.bytes > maxBytesACall {
			if len(calls) == maxCalls {
				rest = append(rest, one)
				continue
			}
			at = len(calls)
			latest[kind] = at
			calls = append(calls, call{verb: verb, shard: one.places[0]})
			if one.topic != "" {
				calls[at].args = append(calls[at].args, one.topic)
			}
			calls[at].args = append(calls[at].args, one.shared...)
		}
		made := &calls[at]
		made.items, made.bytes, made.args = append(made.items, one), made.bytes+one.bytes, append(made.args, one.args...)
		if options := len(made.args) - 2; verb == "put" && len(one.places) > 1 {
			made.args[options] = fmt.Sprint(made.args[options], " earlier")
		}
	}
	return calls, rest
}

// read stores the answers and returns the items that may be in another shard.
func read(some []*item, reply []any) (elsewhere []*item) {
	for i, one := range some {
		one.outcome.Shard = one.places[0]
		one.outcome.parse(reply[len(reply)-len(some)+i].(string))
		switch word := one.outcome.Word; {
		case len(one.places) > 1 && (word == Unknown || word == "moved"):
			one.outcome.Word = ""
			one.places, elsewhere = one.places[1:], append(elsewhere, one)
		case word == Stored, word == Ready && one.outcome.Time.IsZero(): // a put
			one.outcome.Time = dueAt(one.args[1].(string), reply[0].(int64))
		}
	}
	return elsewhere
}

// dueAt returns the due time of a put: ms, or "+" and a delay from nowUs.
func dueAt(due string, nowUs int64) time.Time {
	ms, _ := strconv.ParseInt(due, 10, 64)
	if due[0] == '+' {
		ms += nowUs / 1000
	}
	return time.UnixMilli(ms)
}

// one returns the reply of one call under any layout. A change of a group waits for all durabilities of the shard.
func (c *Client) one(ctx context.Context, verb string, shard int, args ...any) ([]any, error) {
	for round := 1; ; round++ {
		waits := ""
		if groupWrites[verb] {
			waits = c.durabilities.waits(everyTopic)
		}
		answer := c.send(ctx, c.layout.Load(), waits, []call{{verb: verb, shard: shard, args: args}})[0]
		if round < maxRounds && c.durabilities.learn(everyTopic, answer.err) {
			continue
		}
		if answer.reply != nil || answer.err != nil {
			return answer.reply, answer.err
		}
	}
}

// shards returns the number of shards. The first call asks Redis.
func (c *Client) shards(ctx context.Context) (int, error) {
	if c.layout.Load() == unknown {
		c.learning.Lock()
		defer c.learning.Unlock()
	}
	if c.layout.Load() == unknown {
		if err := c.learnLayout(ctx); err != nil {
			return 0, err
		}
	}
	counts := c.layout.Load().counts
	return counts[len(counts)-1], nil
}

// learnLayout asks one shard per Redis until a Redis answers.
func (c *Client) learnLayout(ctx context.Context) (fault error) {
	shards := []int{0}
	if several, is := c.redis.(*several); is {
		shards = several.firstShards()
	}
	for _, shard := range shards {
		_, err := c.one(ctx, "describe", shard, "")
		if err == nil {
			return nil
		}
		fault = first(fault, err)
	}
	return fault
}

// everyPlace visits each shard that may hold a name, including shards added by a growth meanwhile.
func (c *Client) everyPlace(ctx context.Context, name string, visit func(shard int) (more bool, err error)) error {
	if _, err := c.shards(ctx); err != nil {
		return err
	}
	for seen := []int{}; ; {
		next := -1
		for _, shard := range placesOf(name, c.layout.Load().counts) {
			if next < 0 && !contains(seen, shard) {
				next = shard
			}
		}
		if next < 0 {
			return nil
		}
		seen = append(seen, next)
		if more, err := visit(next); !more || err != nil {
			return err
		}
	}
}

// everywhere calls a script in every shard, and starts over if a growth changes the number of shards.
func (c *Client) everywhere(ctx context.Context, verb string, args func(shards int) []any) (replies [][]any, err error) {
	for {
		shards, err := c.shards(ctx)
		if err != nil {
			return nil, err
		}
		replies = nil
		for shard := 0; shard < shards && err == nil; {
			var calls []call
			for ; shard < shards && len(calls) < maxCalls; shard++ {
				calls = append(calls, call{verb: verb, shard: shard, args: args(shards)})
			}
			for _, answer := range c.send(ctx, c.layout.Load(), "", calls) {
				err = first(err, answer.err)
				replies = append(replies, answer.reply)
			}
		}
		if now := c.layout.Load().counts; err != nil || now[len(now)-1] == shards && !hasNil(replies) {
			return replies, err
		}
	}
}

func hasNil(replies [][]any) bool {
	for _, reply := range replies {
		if reply == nil {
			return true
		}
	}
	return false
}

// send sends each call to the node of the shard, and returns an answer per call after the required confirmations.
func (c *Client) send(ctx context.Context, known *layout, waits string, calls []call) []answer {
	answers := make([]answer, len(calls))
	if err := c.usable(); err != nil {
		for i := range answers {
			answers[i].err = err
		}
		return answers
	}
	ctx, end := context.WithTimeout(ctx, c.Timeout)
	defer end()
	for i, command := range c.trips(ctx, known, waits, calls) {
		reply, err := command.Result()
		many, is := reply.([]any)
		switch {
		case err != nil:
			answers[i].err = c.follow(ctx, calls[i].shard, err)
		case is:
			answers[i].reply = many
		default:
			answers[i].reply = []any{reply}
		}
	}
	return answers
}

// usable returns why the client cannot be used: closed, or an invalid setting.
func (c *Client) usable() error {
	if c.waiters.closed() {
		return ErrClosed
	}
	if c.Timeout <= 0 || c.Timeout > longestTimeout || c.ConfirmTimeout < 0 || c.ConfirmTimeout > longestTimeout {
		return InvalidMessage(fmt.Sprintf("Timeout is %v and ConfirmTimeout %v: above 0, and at least 0; at most %v each",
			c.Timeout, c.ConfirmTimeout, longestTimeout))
	}
	return nil
}

func (c *Client) keys(shard int) []string {
	return []string{c.key(shard, metaKey), c.key(shard, neverKey)}
}

// checkDeployment refuses a shard of another deployment than the shards before. Shards from before there were identities name none.
func (c *Client) checkDeployment(shard int, identity string) error {
	if len(identity) != 32 || c.identity.CompareAndSwap(nil, &identity) {
		return nil
	}
	if known := c.identity.Load(); known != nil && *known != identity {
		return ScriptError{"DQLAYOUT", fmt.Sprintf("shard %d is of deployment %s, and this client serves deployment %s: correct the address of Redis",
			shard, identity[:8], (*known)[:8])}
	}
	return nil
}

// follow adopts the layout of a shard that is ahead, and updates a shard that is behind. Other errors pass through.
func (c *Client) follow(ctx context.Context, shard int, fault error) error {
	code, detail, _ := strings.Cut(fault.Error(), " ")
	if code == "WRONGTYPE" {
		// A script stops at such a key, and its earlier writes stay.
		return ScriptError{code, fmt.Sprintf("a key of shard %d has another type, and the call may be carried out in part: `delayq audit` names the key", shard)}
	}
	if !strings.HasPrefix(code, "DQ") {
		return fault
	}
	if code == "DQUNINITIALISED" {
		// A deployment that is created again has another identity.
		c.identity.Store(nil)
	}
	if code != "DQLAYOUT" {
		if node := c.nodeName(shard); node != "" {
			detail += " (node " + node + ")"
		}
		return ScriptError{code, detail}
	}
	words, known := strings.Fields(detail+" ? ? ?"), c.layout.Load()
	if err := c.checkDeployment(shard, words[2]); err != nil {
		return err
	}
	if _, to, hasMoved := strings.Cut(words[0], ">"); hasMoved {
		to, _, _ = strings.Cut(to, ":")
		return c.followMove(shard, to)
	}
	if err := c.checkNode(shard, words[0]); err != nil {
		return err
	}
	number, _, _ := strings.Cut(words[0], "@")
	theirs := layoutOf(words[1])
	switch {
	case number != strconv.Itoa(theirs.number):
	case strings.HasPrefix(theirs.text, known.text):
		c.layout.Store(theirs)
		return nil
	case strings.HasPrefix(known.text, theirs.text):
		_, err := c.one(ctx, "grow", shard, shard, strings.TrimSuffix(known.text, ","))
		return err
	}
	return ScriptError{code, detail}
}
