//! The sample equals the defaults, and every fault is named with its line.

use super::*;
use delayq_service::config::{Environment, Source, check_sample, load};

fn faults(text: &str) -> String {
    load::<Config>(&Source::text("f.toml", text), &Environment::empty()).unwrap_err().to_string()
}

#[test]
fn the_sample_file_equals_the_defaults() {
    check_sample::<Config>(include_str!("../../../../config/delayq.toml")).unwrap();
}

#[test]
fn every_fault_of_the_routes_is_reported_at_once_with_its_line() {
    let text = "[sinks.out.file]
dir = '/tmp'

[[routes]]
topic = 'orders.*'
sink = 'out'

[[routes]]
topic \
                = 'orders.paid'
sink = 'outt'
to = '{nothing}'

[[routes]]
topic = 'a b'
sink = \
                'out'
headers = { 'delayq-id' = 'x' }
";
    let text = faults(text);
    for line in [
        "5 faults in f.toml",
        "f.toml:9: routes[1].topic: this route never matches: route 1 (`orders.*`) comes first and matches every topic of \
         `orders.paid`",
        "f.toml:10: routes[1].sink: no [sinks.outt]; known sinks: out",
        "f.toml:11: routes[1].to: unknown placeholder {nothing}",
        "f.toml:14: routes[2].topic: no topic matches `a b`",
        "f.toml:16: routes[2].headers.delayq-id: headers that begin with delayq- are reserved",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn beside_several_redises_a_sink_says_into_which_redis_it_delivers() {
    let text = "[deployment]
shards = 2
[[redis.nodes]]
name = 'a'
url = 'redis://a:1'
shards = \
                '0-1'
[sinks.own.redis]
[sinks.other.redis.server]
url = \
                'redis://b:1'
[[sinks.several.redis.server.nodes]]
name = 'c'
url = \
                'redis://c:1'
shards = '0-1'
[[routes]]
topic = '*'
sink = 'other'
destination = 'x'
";
    let text = faults(text);
    for line in [
        "f.toml:7: sinks.own.redis: [[redis.nodes]] are several Redises",
        "sinks.several.redis.server.nodes: a sink delivers into a single Redis",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains("sinks.other"), "{text}");
    let text = faults("[redis]\nurl = 'redis+cluster://a:1'\n[sinks.own.redis]\n");
    assert!(text.contains("sinks.own.redis: [redis] is a Redis Cluster; set `server`"), "{text}");
}

#[test]
fn every_fault_of_the_sinks_is_reported_at_once_with_its_line() {
    let text = "[forwarder]
lease = '1ms'
circuit_longest_rest = '1ms'

[sinks.none]
batch = \
                0

[sinks.two.file]
dir = 'relative'
[sinks.two.stdout]

[sinks.trim.redis]
max_len \
                = 1000

[sinks.list.redis]
as = 'list'
create = false

[sinks.stream.redis]
element = 'record'
";
    let text = faults(text);
    for line in [
        "f.toml:2: forwarder.lease: 1ms is out of range",
        "f.toml:3: forwarder.circuit_longest_rest: 1ms is out of range",
        "f.toml:6: sinks.none.batch: 0 is out of range",
        "f.toml:5: sinks.none.kind: a sink needs a table named after its kind: file, stdout, redis",
        "f.toml:9: sinks.two.file.dir: expected the absolute path",
        "sinks.two.kind: a sink has a single kind, but tables of file, stdout are present: define a sink for each",
        "f.toml:13: sinks.trim.redis.max_len: MAXLEN discards unread entries",
        "f.toml:17: sinks.list.redis.create: only for streams",
        "f.toml:20: sinks.stream.redis.element: a stream has fields",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}
