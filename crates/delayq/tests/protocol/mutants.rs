//! Deliberately broken scripts: the model test must detect each.

use crate::bare_shard::scripts_with;
use crate::random_run::{Seeds, Weather, run_seeds};
use delayq::protocol::Scripts;
use delayq_tests::environment::at_length;
use delayq_tests::redis_server::RedisServer;
use std::path::Path;
use std::sync::Arc;

const SEEDS: u64 = 2000;

/// The seed that exposed each mutant, written by `DELAYQ_UPDATE=1`, one a line. After a change of the runs or
/// the scripts, a stale seed costs a new search.
const BETRAYED_BY: &str = "tests/protocol/mutants.txt";

async fn betrayal(
    server: &RedisServer,
    scripts: &Arc<Scripts>,
    weather: Weather,
    known: Option<u64>,
) -> Option<u64> {
    if let Some(first) = known
        && run_seeds(server, scripts, Seeds { weather, first, count: 1 }).await.is_err()
    {
        return known;
    }
    run_seeds(server, scripts, Seeds { weather, first: 0, count: SEEDS })
        .await
        .err()
        .map(|failure| failure.seed)
}

fn known(written: &str, what: &str) -> Option<u64> {
    let (_, seed) =
        written.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| *name == what)?;
    Some(seed.parse().expect("the seed of a mutant is a number"))
}

/// Name of the fault, file, text, replacement.
const MUTANTS: [(&str, &str, &str, &str); 145] = [
    ("a finish is missing from the history", "lib/finish", "  note(m.no, m.id, outcome)\n", ""),
    ("a ready message is missing from the history", "lib/pump/move", "if any_history then", "if false then"),
    (
        "a history is never forgotten",
        "lib/record",
        "redis.pcall('ZADD', base .. 'markers', too_old, stream)",
        "do end",
    ),
    ("a history stays when it is switched off", "configure", "drop_history(no)", "do end"),
    ("ack ignores the receipt", "lib/ack/judge", "if proof[k] then", "if true then"),
    ("ack keeps the lease", "lib/ack/write", "call('ZREM', leases, unpack(ended))", "do end"),
    ("ack ignores the gen of an own id", "lib/ack/judge", "and sub(env, 5, 8) == sub(receipt, -4)", ""),
    ("ack leaves the body of an own id", "lib/ack/write", "call('MSET', unpack(marked))", "do end"),
    ("ack leaves no marker", "lib/ack/write", "call('MSET', unpack(marked))", "call('UNLINK', unpack(keys))"),
    ("ack lists no marker", "lib/ack/indexes", "redis.pcall('RPUSHX', unpack(lists[i]))", "1"),
    (
        "ack leaves the group index",
        "lib/ack/write",
        "redis.pcall('ZREM', grouped[i], grouped[i + 1])",
        "do end",
    ),
    (
        "ack leaves the expiry",
        "lib/ack/write",
        "redis.pcall('ZREM', base .. 'expiries', unpack(expiring))",
        "do end",
    ),
    (
        "pump drops the last of a batch",
        "lib/pump/move",
        "members[j] = members[j] .. stamp end",
        "members[j] = members[j] .. stamp end\n      if many > 1 then members[many] = nil end",
    ),
    (
        "pump is a millisecond early",
        "pump",
        "tonumber(behind) <= now then",
        "tonumber(behind) <= now + 1 then",
    ),
    ("pump of many is a millisecond early", "lib/pump/bucket_due", "'-inf', now)", "'-inf', now + 1)"),
    (
        "pump pushes twice",
        "lib/pump/move",
        "call('ZREMRANGEBYRANK', bucket",
        "make_ready(no, members)\n        call('ZREMRANGEBYRANK', bucket",
    ),
    (
        "pump forgets to set the alarm again",
        "lib/pump/move",
        "call('ZADD', index_of_alarms, behind, member)",
        "call('ZREM', index_of_alarms, member)",
    ),
    (
        "pump keeps a marker",
        "lib/pump/ends",
        "if gone[1] then call('UNLINK', unpack(gone)) end\n  forgotten = forgotten + ended",
        "",
    ),
    (
        "pump forgets a newer marker by an older entry",
        "lib/pump/ends",
        "if d == h and c == g and b == f and a == e then",
        "if true then",
    ),
    (
        "pump forgets markers early",
        "lib/pump/ends",
        "call('ZRANGEBYSCORE', ends, '-inf', now,",
        "call('ZRANGEBYSCORE', ends, '-inf', now + 60000,",
    ),
    ("pump serves an owner of old", "lib/pump/hindered", "elseif mine < epoch then", "elseif false then"),
    (
        "reschedule leaves the group index",
        "lib/place",
        "redis.call('ZADD', base .. 'g:' .. group, m.due",
        "redis.call('ZADD', base .. 'g:' .. group, 'NX', m.due",
    ),
    ("reschedule leaves the old bucket", "lib/reschedule", "if not stays then unplace(old) end\n", ""),
    (
        "reschedule ignores the expected time",
        "reschedule",
        "if expected and old ~= expected and old ~= due",
        "if false",
    ),
    ("cancel leaves the body", "lib/finish", "redis.call('UNLINK', key)", "do end"),
    ("cancel leaves the bucket", "lib/cancel", "    unplace(m)\n", "    count('ready', m.no, 0)\n"),
    (
        "cancel delivers what is leased again",
        "lib/cancel",
        "m.flags = bit.bor(m.flags, DOOMED)",
        "m.flags = m.flags",
    ),
    ("reserve forgets the alarm", "lib/reserve/take", "alarm('leases', until_ms)", "do end"),
    (
        "reserve forgets the alarm of plain messages",
        "lib/reserve/lease",
        "call('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'leases')",
        "0",
    ),
    (
        "reserve gives a plain message twice",
        "lib/reserve/read",
        "or sub(env, 5, 8) ~= sub(entry, -11, -8) then break end",
        "then break end",
    ),
    (
        "a plain reserve that stops at its bytes tells no wait",
        "reserve",
        "if wanted > 0 and bytes >= max_bytes then answer[2] = 0 end",
        "",
    ),
    (
        "reserve does not count the attempt",
        "lib/reserve/leased_head",
        "\\0\\0\\0\\1\\0\\1",
        "\\0\\0\\0\\1\\0\\0",
    ),
    (
        "reserve gives what has expired",
        "lib/reserve/entry",
        "if struct.unpack('>I8', env, at) <= now then return 'expired' end",
        "",
    ),
    ("release keeps the lease", "lib/receipt", "redis.call('ZREM', base .. 'leases', receipt)", "do end"),
    ("put forgets the counter", "put", "if accepted > 0 then redis.pcall(", "if false then redis.pcall("),
    (
        "put forgets the counter of plain messages",
        "lib/put/indexes",
        "redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted == 1 and '1' or accepted)",
        "0",
    ),
    (
        "put forgets the expiry",
        "lib/put/join",
        "    call('ZADD', base .. 'expiries', expires, no .. ':' .. id)\n",
        "",
    ),
    (
        "put refuses every late repeat",
        "lib/put/again",
        "then return false end\n  local remember",
        "then end\n  local remember",
    ),
    (
        "put refuses no late repeat",
        "lib/put/again",
        "return tried + math.min",
        "return false and tried + math.min",
    ),
    ("put takes the same id twice", "lib/put/each", "if answer then return answer end", ""),
    ("put takes the same id twice in a call", "lib/put/plain", "if met and met[key] or", "if"),
    ("put takes a plain id twice", "lib/put/plain", "not free and call('EXISTS', key) == 1", "false"),
    ("a debounce waits longer than it may", "lib/put/merge", "math.min(due, first + span)", "due"),
    ("a debounce counts from now", "lib/put/merge", "local first = had or rule", "local first = rule"),
    ("a debounce does not note the first put", "lib/put/merge", "rule == 'within' and now or nil", "nil"),
    ("an ack that puts keeps the lease", "lib/put/follow", "  end_lease(m, receipt)\n", ""),
    ("an ack that puts leaves the message", "lib/put/follow", "finish(m, 'delivered')", "do end"),
    (
        "an ack that puts what exists leaves the message",
        "lib/put/follow",
        "if exists then end_acked(m) end",
        "",
    ),
    (
        "an ack puts after a cancel",
        "lib/put/follow",
        "if m and bit.band(m.flags, DOOMED) > 0 then",
        "if false then",
    ),
    (
        "an ack that puts takes a delivered message for the next one",
        "lib/put/follow",
        "or is_same_id and read(no, id).delivery > 0 then",
        "then",
    ),
    (
        "an ack that puts in its place replaces",
        "lib/put/again",
        "old.state == LEASED and 'delivered' or 'replaced'",
        "'replaced'",
    ),
    ("a put that moves only later moves sooner", "lib/put/merge", "math.max(due, old.due)", "due"),
    ("a put that moves only sooner moves later", "lib/put/merge", "math.min(due, old.due)", "due"),
    (
        "an edit moves the message",
        "lib/put/merge",
        "rule and old.due or due",
        "rule ~= 'content' and rule and old.due or due",
    ),
    (
        "a throttle moves the message",
        "lib/put/merge",
        "return rule and old.due or due",
        "return rule == 'content' and old.due or due",
    ),
    ("a throttle forgets the last delivery", "lib/put/throttle", "if is_last then", "if false then"),
    (
        "a throttle forgets a dead letter",
        "lib/put/throttle",
        "m.state >= LEASED and m.state <=",
        "(m.state == LEASED or m.state > DEAD) and m.state <=",
    ),
    (
        "a throttle forgets a leased message",
        "lib/put/throttle",
        "m.state >= LEASED and m.state <=",
        "m.state >= DEAD and m.state <=",
    ),
    (
        "a throttle trusts a clock that ran ahead",
        "lib/put/throttle",
        "math.min(m.due, now) + span) end",
        "m.due + span) end",
    ),
    ("a throttle tells the own time of a put", "lib/put/throttle", "due > own and m or nil", "nil"),
    ("a throttle takes any window", "lib/put/throttle", "span > kept", "false"),
    ("a throttle takes a generated id", "lib/put/throttle", "if generated(id) then", "if false then"),
    ("a put is never swallowed", "lib/put/throttle", "return is_recent and", "return false and"),
    ("a put is swallowed for ever", "lib/put/throttle", " and math.min(m.due, now) + span > now", ""),
    ("a put is swallowed a millisecond longer", "lib/put/throttle", "+ span > now", "+ span >= now"),
    (
        "a successor is lost by an ack",
        "lib/ack/each",
        "if not succeed(m, 'delivered') then finish(m, 'delivered') end",
        "finish(m, 'delivered')",
    ),
    (
        "a successor is lost by an ack that puts",
        "lib/put/follow",
        "and not succeed(m, 'delivered') then",
        "then",
    ),
    ("a successor is lost by a bury", "bury", "if not succeed(m, 'buried', reason) then", "if true then"),
    (
        "a successor is lost by the last attempt",
        "lib/retry",
        "if not succeed(m, 'buried', reason) then kill(m, reason) end",
        "kill(m, reason)",
    ),
    (
        "a successor is lost by an expiry",
        "lib/retry",
        "if not succeed(m, 'expired') then finish(m, 'expired') end",
        "finish(m, 'expired')",
    ),
    ("a successor survives a cancel behind it", "lib/cancel", "    take_successor(m)\n", ""),
    ("a successor keeps the content of what is retried", "lib/retry", "    become(m, env)\n", ""),
    (
        "a successor keeps the attempts",
        "lib/successor",
        "m.flags, m.delivery, m.attempt, m.max, m.env = flags, 0, 0, max, env",
        "m.flags, m.max, m.env = flags, max, env",
    ),
    ("a successor is not accepted", "lib/successor", "count('accepted', m.no, 1)", "do end"),
    ("a retried successor is not accepted", "lib/retry", "    count('accepted', m.no, 1)\n", ""),
    (
        "a successor lives longer than it may",
        "lib/successor",
        "not (expires and expires <= now) and env",
        "env",
    ),
    (
        "a successor has no expiry",
        "lib/successor",
        "redis.call('ZADD', base .. 'expiries', expires, m.no .. ':' .. m.id)",
        "do end",
    ),
    (
        "a successor keeps the expiry before it",
        "lib/successor",
        "redis.pcall('ZREM', base .. 'expiries', m.no .. ':' .. m.id)",
        "do end",
    ),
    ("a successor is never replaced", "lib/put/successor", "if keep and old then", "if old then"),
    (
        "a successor that keeps the content changes it",
        "lib/put/successor",
        "if keep and old then",
        "if false then",
    ),
    ("an edit asks for no due time", "lib/put/merge", "not expected_due or ", "true or "),
    ("an edit asks for no content", "lib/put/merge", "(not expected_hash or hash == expected_hash)", "true"),
    ("a put again keeps no content", "lib/put/merge", "env, flags = stored_content(old)", "do end"),
    (
        "a put again keeps an expiry of its topic",
        "lib/put/merge",
        "if bit.band(flags, RELATIVE) == 0 then return env, flags end",
        "do return env, flags end",
    ),
    ("finish leaves no marker", "lib/finish", "end_marker(m, remember)", "do end"),
    ("a nearer due time wakes nobody", "lib/wake", "if nearest then", "if false then"),
    (
        "a page skips one at its edge",
        "lib/page",
        "return middle, middle + 1 end",
        "return middle, middle + 2 end",
    ),
    ("list goes on at the hour that it has shown", "list", "':(%d+)$') + 1)", "':(%d+)$') + 0)"),
    (
        "a page passes over what came behind the last one",
        "lib/page",
        "low = middle + 1 else high = middle end",
        "low = middle + 1 else low = middle + 1 end",
    ),
    (
        "list shows a ready message as delayed",
        "lib/shown",
        "elseif state == PENDING and not is_delayed(m) then",
        "elseif false then",
    ),
    (
        "list_group says that it is through when it is not",
        "list_group",
        "i == 2 * limit - 1 or",
        "i == 2 * limit or",
    ),
    (
        "histogram is off by an hour",
        "histogram",
        "local hour, had = at * HOUR_MS",
        "local hour, had = (at + 1) * HOUR_MS",
    ),
    (
        "histogram counts the end of its range",
        "histogram",
        "math.min(start + width, to) - 1",
        "math.min(start + width, to)",
    ),
    (
        "count leaves a state out of the books",
        "count",
        "'leased', 'dead', 'accepted'",
        "'leased', 'buried', 'accepted'",
    ),
    ("count takes the lease's end for the due time", "count", "math.min(since or m.due, m.due)", "m.at"),
    (
        "survey takes the youngest head for the oldest",
        "survey",
        "math.min(oldest_us or now_us, since)",
        "math.max(oldest_us or 0, since)",
    ),
    ("audit takes a marker for a message", "audit", "math.min(m.state, 5)", "math.min(m.state, 4)"),
    (
        "audit_index takes the entry of a lease for a stale one",
        "lib/fault",
        "if g and g ~= gen_bytes(m.gen) then return true end",
        "if g then return true end",
    ),
    (
        "overview counts markers for leases",
        "overview",
        "held_by('ZCARD', 'leases')",
        "held_by('ZCARD', 'markers')",
    ),
    ("survey counts what is due behind its span", "survey", "'-inf', texts[i]", "'-inf', '+inf'"),
    (
        "promote takes what is due behind its range",
        "promote",
        "if tonumber(page[i + 1]) > to then return false end",
        "",
    ),
    ("promote takes messages of other topics", "promote", "(not only or no == only) and ", ""),
    ("promote meets its own messages again", "promote", "from, last = now + 1, ''", "last = ''"),
    (
        "purge leaves the group index",
        "purge",
        "  finish(m, 'purged')",
        "  m.flags = bit.band(m.flags, bit.bnot(GROUP))\n  finish(m, 'purged')",
    ),
    (
        "purge begins its next step behind what is left",
        "purge",
        "'more', page[#page], page[#page - 1]",
        "'more', string.format('%.0f', page[#page] + 1), ''",
    ),
    (
        "purge takes what is due behind its range",
        "purge",
        "if tonumber(page[i + 1]) > to then return false end",
        "",
    ),
    (
        "a rate lets one more through",
        "lib/reserve/allowance",
        "math.max(allowed, 0), interval, tat",
        "math.max(allowed, 0) + 1, interval, tat",
    ),
    (
        "a rate says a moment too early when it may",
        "lib/reserve/allowance",
        "come_back(math.ceil((tat + interval - burst - now_us) / 1000))",
        "come_back(math.floor((tat + interval - burst - now_us) / 1000))",
    ),
    (
        "a rate forgets what it let through",
        "lib/reserve/topic",
        "'tat', string.format('%.0f', tat + taken * interval)",
        "'tat', string.format('%.0f', tat)",
    ),
    ("pause is ignored", "lib/reserve/allowance", "if paused then return 0 end", ""),
    (
        "reserve takes more bytes than asked for",
        "lib/reserve/take",
        "if bytes >= max_bytes then break end",
        "if bytes > max_bytes + 40 then break end",
    ),
    (
        "reserve takes more bytes of plain messages than asked for",
        "lib/reserve/read",
        "if bytes >= max_bytes then break end",
        "if bytes > max_bytes + 40 then break end",
    ),
    (
        "a topic's back-off is not asked for",
        "lib/retry",
        "return of_topic and is_backoff(of_topic) and of_topic or",
        "return",
    ),
    (
        "configure sets nothing of what was set already",
        "configure",
        "redis.call('HSET', key, ARGV[i]",
        "redis.call('HSETNX', key, ARGV[i]",
    ),
    (
        "shift_group forgets how far it came",
        "shift_group",
        "if at then redis.call('HSET'",
        "if false then redis.call('HSET'",
    ),
    (
        "cancel_group says that it is through when it is not",
        "cancel_group",
        "local through = #page < 2 * limit",
        "local through = #page <= 2 * limit",
    ),
    ("replay keeps the attempts", "lib/revive", "bit.bnot(DOOMED)), 0", "bit.bnot(DOOMED)), m.attempt"),
    ("replay keeps the reason", "lib/revive", "redis.call('HDEL', base .. 'w:' .. m.no, m.id)", "do end"),
    (
        "put keeps the reason of a dead letter",
        "lib/put/each",
        "call('HDEL', base .. 'w:' .. no, id)",
        "do end",
    ),
    (
        "purge keeps the reason of a dead letter",
        "lib/finish",
        "redis.call('HDEL', base .. 'w:' .. m.no, m.id)",
        "do end",
    ),
    (
        "a dead letter is shown without its reason",
        "lib/shown",
        "if type(reason) == 'string' then",
        "if false then",
    ),
    ("replay forgets the expiry", "lib/revive", "if expires then set_expiry(m, expires) end", ""),
    (
        "replay brings back what expires at once",
        "replay",
        "if expires and expires <= due then",
        "if false then",
    ),
    ("a topic's expiry stays where it was", "lib/expiry", "math.min(due + after, LAST_MS)", "expires"),
    ("count leaves an hour out", "lib/look", "hour = found + 1", "hour = found + 2"),
    ("a limit is not held to its range", "lib/arguments", "n >= least and n <= most and n or nil", "n"),
    (
        "a rate's bucket holds more than its burst",
        "lib/reserve/allowance",
        "if tat > full then",
        "if false then",
    ),
    (
        "a reserve that stops at its bytes tells no wait",
        "reserve",
        "if wanted > 0 and bytes >= max_bytes then come_back(0) end",
        "",
    ),
    (
        "a reserve goes on to the next topic behind its bytes",
        "reserve",
        "wanted > 0 and bytes < max_bytes do",
        "wanted > 0 do",
    ),
    ("a lease that ends too late stays", "pump", "indexes = { 'leases', 1 }", "indexes = {}"),
    (
        "the longest lease of plain messages is not noted",
        "lib/reserve/lease",
        "if lease > LEASE_MS and lease >",
        "if false and lease >",
    ),
    (
        "the longest lease is not noted",
        "lib/lease",
        "if ms > LEASE_MS and ms > longest_lease() then",
        "if false then",
    ),
    (
        "a later hour is pumped before the rest of an earlier one",
        "pump",
        "if limit == 0 or hours and no and unfinished[no] then",
        "if limit == 0 then",
    ),
    ("a back-off of any kind is taken", "lib/backoff", "if not right then return false end", ""),
    (
        "what is trimmed is not looked at",
        "lib/stale",
        "while entries[gone + 1] and is_stale_ready(no, entries[gone + 1]) do",
        "while entries[gone + 1] do",
    ),
    (
        "a put that is refused opens its topic",
        "put",
        "no, is_new = topic_number(topic)",
        "no, is_new = topic_number(topic)\nif is_new then topic_open(topic, no) end\nis_new = false",
    ),
    (
        "what is rescheduled to later keeps its entry",
        "lib/reschedule",
        "due <= math.max(m.due, m.at) and due <= now",
        "due <= now",
    ),
    (
        "a worker takes the shard of a timer",
        "claim",
        "if is_worker and is_timers and until_ms == 0 and is_pumped then",
        "if false then",
    ),
    ("the lock of a worker keeps a timer out", "claim", "is_kept or is_worker or is_timers", "true"),
    ("claim gives the same epoch twice", "claim", "redis.call('HINCRBY', KEYS[1], 'epoch', 1)", "epoch + 1"),
    (
        "forget_quiet waits for nothing",
        "forget_quiet",
        "return now - since > math.max(quiet_ms, remembered)",
        "return true",
    ),
    ("forget_quiet forgets settings", "forget_quiet", "if not NOTES[found[i]] then return nil end", ""),
    (
        "forget gives a number out again",
        "lib/empty",
        "redis.call('UNLINK', base .. 't:' .. no, base .. 'w:' .. no, base .. 'n:' .. no, base .. 'q:' .. no, base .. 'x:' .. no,\n    base .. 'v:' .. no, base .. 'y:' .. no)",
        "redis.call('HINCRBY', KEYS[1], 'topics', -1)",
    ),
    (
        "hold is ignored by who puts",
        "lib/put/each",
        "direct = due <= now and not held",
        "direct = due <= now",
    ),
    (
        "hold is ignored by who puts plain messages",
        "lib/put/plain",
        "if due <= now and not held then",
        "if due <= now then",
    ),
];

const MUTANTS_OF_SWEEPS: [(&str, &str, &str, &str); 5] = [
    (
        "a lease that is given back lasts too long",
        "repair",
        "math.min(m.at, now + policy(m.no, 'lease_ms'))",
        "m.at",
    ),
    ("the timer is not told of what is given back", "repair", "--# include wake", "--# include note"),
    (
        "an alarm of nothing stays for years",
        "repair",
        "redis.pcall('ZREM', base .. 'alarms', index)",
        "do end",
    ),
    ("what is sound looks stale", "lib/fault", "return whole and not belongs", "return true"),
    (
        "a counter is taken for right",
        "recount",
        "'accepted:' .. no, accepted)",
        "'accepted:' .. no, stats.accepted)",
    ),
];

const MUTANTS_OF_GROUPS: [(&str, &str, &str, &str); 78] = [
    (
        "put takes a lifetime for the topic's",
        "lib/put/each",
        "lifetime_of(env, flags) or expire_after",
        "expire_after",
    ),
    ("a lifetime's expiry moves by the topic's", "lib/expiry", "lifetime or policy", "policy"),
    ("a full group has room", "lib/reserve/groups", "math.min(limit - inside,", "math.min(limit,"),
    (
        "a message overtakes the parked ones of its group",
        "lib/reserve/groups",
        "if not queued[group] and not is_blocked",
        "if not is_blocked",
    ),
    (
        "a leased message does not count in its group",
        "lib/reserve/take",
        "if limit < math.huge and group ~= NO_GROUP then flights",
        "if false then flights",
    ),
    (
        "messages of one call do not count in their group",
        "lib/reserve/take",
        "rooms[group] = room_of(no, group) - 1",
        "do end",
    ),
    (
        "a parked entry stays in the ready queue",
        "lib/reserve/take",
        "later[#later + 1] = { group, entry, flags, env }",
        "back[#back + 1] = entry",
    ),
    (
        "a parked message is in no index",
        "lib/reserve/groups",
        "redis.call('ZADD', base .. 'k:' .. no, 'NX', now, group)",
        "do end",
    ),
    ("an ack gives no turn", "lib/ack/indexes", "local given = is_queued and", "local given = false and"),
    (
        "an ack leaves its message in flight",
        "lib/ack/write",
        "for i = 1, landed and #landed or 0, 3 do",
        "for i = 1, 0 do",
    ),
    ("the end of a lease gives no turn", "lib/pump/leases", "  turn_after(m)\n", ""),
    ("a release leaves its message in flight", "release", "  land(m, receipt)\n", ""),
    ("a burial gives no turn", "bury", "    turn_after(m)\n", ""),
    ("a pause of a group is ignored", "lib/reserve/groups", "then rooms[group] = 0 end", "then end"),
    ("the end of a pause gives no turn", "pause_group", "    give_turn(no, ARGV[i])\n", ""),
    ("the end of a pause leaves the pause", "pause_group", "redis.call('ZREM', paused, ARGV[i])", "1"),
    ("a pause is noted again by each repeat", "pause_group", "'NX', now, ARGV[i]", "now, ARGV[i]"),
    (
        "a topic looks for pauses for ever",
        "pause_group",
        "redis.call('HDEL', base .. 't:' .. no, 'paused_groups')",
        "do end",
    ),
    (
        "pauses are forgotten while nothing is parked",
        "lib/reserve/topic",
        "limit == math.huge and not any_paused and",
        "limit == math.huge and",
    ),
    ("survey takes the messages of a paused topic for work", "survey", "if paused then return ready end", ""),
    ("survey takes what its group holds for work", "survey", "return math.max(ready - free, 0)", "return 0"),
    ("a message of a paused group looks free", "lib/shown", "return HELD + PAUSED end", "return 0 end"),
    (
        "a topic with a paused group is forgotten",
        "forget_quiet",
        "grouped = true }",
        "grouped = true, paused_groups = true }",
    ),
    (
        "a group whose parked messages are gone stays in the index",
        "lib/stale",
        "redis.pcall('ZREM', base .. 'k:' .. no, group)",
        "do end",
    ),
    ("a turn is told to nobody", "lib/turn", "group) == 1 then", "group) == 2 then"),
    ("an ack that puts gives no turn", "lib/put/follow", "if m then turn_after(m) end", ""),
    ("a failed message does not block", "lib/flight", "m.flags = bit.bor(m.flags, BLOCKS)", "do end"),
    (
        "a failed message is in no index",
        "lib/flight",
        "redis.call('ZADD', base .. 'x:' .. m.no, '0', group .. '\\31' .. m.id)",
        "do end",
    ),
    ("a burial does not block", "bury", "    block_group(m)\n", ""),
    ("the end of a lease does not block", "lib/pump/leases", "  block_group(m)\n", ""),
    ("a release does not block", "release", "  block_group(m)\n", ""),
    (
        "a message passes a failed one",
        "lib/reserve/groups",
        "not is_blocked(no, group) and room_of(no, group) > 0 then return false",
        "room_of(no, group) > 0 then return false",
    ),
    (
        "a parked message passes a failed one",
        "lib/reserve/take",
        "stopped = parked and group and is_blocked(no, group) and not leads(flags)",
        "stopped = false",
    ),
    (
        "a failed message waits for those that wait for it",
        "lib/reserve/groups",
        "if leads(flags) then return room_of(no, group) < 1 end",
        "",
    ),
    (
        "a failed message is parked behind the others",
        "lib/reserve/groups",
        "redis.call('LPUSH'",
        "redis.call('RPUSH'",
    ),
    (
        "an ack leaves the block",
        "lib/ack/write",
        "for i = 1, freed and #freed or 0, 2 do",
        "for i = 1, 0, 2 do",
    ),
    ("the end of a failed message gives no turn", "lib/turn", "if group then give_turn(m.no, group) end", ""),
    ("the end of a failed message leaves the block", "lib/finish", "  unblock(m, freed_group)\n", ""),
    (
        "a reschedule leaves the block",
        "lib/reschedule",
        "m.flags = bit.band(m.flags, bit.bnot(BLOCKS))",
        "do end",
    ),
    ("a put again keeps the block", "lib/put/merge", "bit.band(old.flags, bit.bnot(BLOCKS))", "old.flags"),
    (
        "an edit of the content ends the block",
        "lib/put/each",
        "if pending and due == pending.due and bit.band(pending.flags, BLOCKS) > 0",
        "if false",
    ),
    ("what has expired blocks for the rest of the call", "lib/reserve/take", "        blocked = {}\n", ""),
    ("a looser limit gives no turn", "configure", "if redis.call('EXISTS', full) == 1 then", "if false then"),
    (
        "a topic forgets that failed messages block",
        "lib/reserve/topic",
        "and not blocking and not fair",
        "and not fair",
    ),
    ("a message of a blocked group looks free", "lib/shown", "return HELD + BLOCKED end", "return 0 end"),
    ("a failed message looks held", "lib/shown", "if bit.band(m.flags, BLOCKS) > 0 then return 0 end", ""),
    (
        "an audit misses that messages wait for a failed one",
        "lib/stranded",
        "return not waits_for_failed(no, group)",
        "return true",
    ),
    ("in fair order a message joins the ready queue", "lib/fair", "if not its_flags then", "if true then"),
    (
        "in fair order a group has no turn",
        "lib/fair",
        "redis.call('ZADD', turns, 'NX', math.max(now_us, (last or 0) + 1), group) == 1",
        "false",
    ),
    ("in fair order a turn is told to nobody", "lib/fair", "if is_new and not last then", "if false then"),
    ("in fair order a failed message stands behind", "lib/fair", "leads and 'LPUSH' or 'RPUSH'", "'RPUSH'"),
    ("in fair order a put joins the ready queue", "put", "terms[6] == 'fair'", "false"),
    ("no pump is told of fair order", "lib/histories", "note_any('fair', fair)", "do end"),
    (
        "a group keeps its turn",
        "lib/reserve/turns",
        "redis.call('ZADD', turns, next_turn(no), group)\n          again",
        "again",
    ),
    (
        "the first group has no need to share",
        "lib/reserve/turns",
        "fair and math.max(math.floor(math.min(wanted, most - taken) / #waiting), 1) or most",
        "most",
    ),
    (
        "a group gets its share once a call",
        "lib/reserve/turns",
        "bytes < max_bytes and again or nil",
        "bytes < max_bytes and nil",
    ),
    (
        "what was ready before waits for ever",
        "lib/reserve/topic",
        "fair and take_queued(",
        "false and take_queued(",
    ),
    ("what was ready before passes the turns", "lib/reserve/groups", "if fair then return true end", ""),
    (
        "messages without a group take no turns",
        "lib/reserve/groups",
        "return fair and NO_GROUP or nil end",
        "return nil end",
    ),
    (
        "messages without a group have a limit",
        "lib/reserve/groups",
        "  if group == NO_GROUP then return math.huge end\n",
        "",
    ),
    (
        "a topic forgets that its groups take turns",
        "lib/reserve/topic",
        "and not blocking and not fair",
        "and not blocking",
    ),
    (
        "a group with a turn looks held",
        "lib/shown",
        "and not redis.pcall('ZSCORE', base .. 'n:' .. m.no, group)",
        "",
    ),
    (
        "a group with a turn counts as full",
        "count",
        "of_groups[1] - table.remove(of_groups)",
        "(table.remove(of_groups) and of_groups[1])",
    ),
    ("a group without tokens has room", "lib/reserve/groups", "tokens_of(no, group))", "math.huge)"),
    ("tokens are not spent", "lib/reserve/take", "        spend(group)\n", ""),
    ("what is spent comes back", "lib/reserve/take", "    charge(no)\n", ""),
    (
        "a parked message waits for no token",
        "lib/reserve/groups",
        "  if room_of(no, group) < 1 then await_token(no, group) end\n",
        "",
    ),
    ("a group waits for no token", "lib/reserve/turns", "          await_token(no, group)\n", ""),
    ("a token gives no turn", "lib/reserve/rates", "      give_turn(no, group)\n", ""),
    (
        "a token waits for the clock of before",
        "lib/reserve/rates",
        "{ string.format('(%.0f', now_us + pace), '+inf' } }",
        "}",
    ),
    ("a full bucket is kept", "lib/reserve/rates", "if full[1] then", "if false then"),
    (
        "a bucket holds more than its burst",
        "lib/reserve/rates",
        "for _, group in ipairs(ahead) do",
        "for _, group in ipairs({}) do",
    ),
    (
        "nobody comes back for a token",
        "lib/reserve/topic",
        "if pace and allowed > taken",
        "if false and allowed > taken",
    ),
    (
        "a topic forgets the rate of its groups",
        "lib/reserve/topic",
        "and not fair and not pace",
        "and not fair",
    ),
    (
        "buckets outlive their rate",
        "configure",
        "redis.call('UNLINK', base .. 'v:' .. no, base .. 'y:' .. no)",
        "do end",
    ),
    (
        "an audit misses that messages wait for a token",
        "lib/stranded",
        "{ 'n:', 'q:', 'y:' }",
        "{ 'n:', 'q:' }",
    ),
    ("survey misses the groups with a token", "survey", "'-inf', now_us, 'LIMIT'", "'-inf', 0, 'LIMIT'"),
    ("the age of parked messages is unknown", "lib/head", "group and 'p:' .. no", "false and 'p:' .. no"),
];

/// `DELAYQ_MUTANTS=put,lib/page` selects the mutants of some files.
#[allow(clippy::disallowed_methods, reason = "which mutants are tried is for the caller of the tests to say")]
fn is_asked_for(file: &str) -> bool {
    std::env::var("DELAYQ_MUTANTS").map_or(true, |files| files.split(',').any(|one| one == file))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "the variable asks for the seeds to be written again")]
async fn every_broken_script_turns_the_model_test_red() {
    let server = RedisServer::private().await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(BETRAYED_BY);
    let is_updating = std::env::var_os("DELAYQ_UPDATE").is_some();
    let written = std::fs::read_to_string(&path).unwrap();
    let (mut unseen, mut betrayed) = (Vec::new(), String::new());
    let fair = MUTANTS.into_iter().map(|mutant| (Weather::Fair, mutant));
    let swept = MUTANTS_OF_SWEEPS.into_iter().map(|mutant| (Weather::Swept, mutant));
    let grouped = MUTANTS_OF_GROUPS.into_iter().map(|mutant| (Weather::Grouped, mutant));
    for (weather, (what, file, from, to)) in
        fair.chain(swept).chain(grouped).filter(|(_, (_, file, ..))| is_asked_for(file))
    {
        let known = at_length(known(&written, what), None);
        match betrayal(&server, &scripts_with(&[(file, from, to)]), weather, known).await {
            Some(seed) => betrayed += &format!("{what}: {seed}\n"),
            None => unseen.push(what),
        }
    }
    assert!(unseen.is_empty(), "not noticed: {unseen:?}");
    if is_updating {
        std::fs::write(path, betrayed).unwrap();
    }
}
