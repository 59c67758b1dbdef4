//! The vectors that clients in all languages share, verified with this client.

mod pumping;
mod series;
mod windows;

use delayq::protocol::{Envelope, EnvelopeError, HEAD_BYTES, Keys, Scripts, Verb};
use delayq::{
    Backoff, Group, LinkSettings, Message, MessageId, Namespace, ShardCount, State, Target, Topic, UnixMillis,
};
use delayq_tests::deployment::{created, settings};
use delayq_tests::generated::compare;
use delayq_tests::redis_server::RedisServer;
use serde_json::Value;
use std::time::Duration;

const STATES: [State; 8] = [
    State::Delayed,
    State::Ready,
    State::Leased,
    State::Dead,
    State::Delivered,
    State::Cancelled,
    State::Expired,
    State::Purged,
];

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let digits: Vec<u8> = text(hex).chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn millis(value: &Value) -> UnixMillis {
    UnixMillis::new(value.as_u64().unwrap())
}

fn backoff(value: &Value) -> Option<Backoff> {
    let kind = value.get("kind")?.as_str()?;
    let delays: Vec<_> =
        list(&value["delays_ms"]).iter().map(|ms| Duration::from_millis(ms.as_u64().unwrap())).collect();
    Some(match kind {
        "fixed" => Backoff::Fixed(delays[0]),
        "exponential" => Backoff::Exponential { first: delays[0], longest: delays[1] },
        _ => Backoff::List(delays),
    })
}

fn headers(value: &Value) -> Vec<(String, String)> {
    list(value).iter().map(|pair| (text(&pair[0]).to_owned(), text(&pair[1]).to_owned())).collect()
}

fn envelope(said: &Value) -> Envelope {
    let number = |name: &str| said[name].as_u64().unwrap();
    Envelope {
        state: STATES.into_iter().find(|state| state.word() == text(&said["state"])).unwrap(),
        generation: number("gen").try_into().unwrap(),
        due: millis(&said["due_ms"]),
        at: millis(&said["at_ms"]),
        delivery: number("delivery").try_into().unwrap(),
        attempt: number("attempt").try_into().unwrap(),
        max_attempts: number("max_attempts").try_into().unwrap(),
        doomed: said["doomed"].as_bool().unwrap(),
        relative: false,
        lifetime: said["lifetime_ms"].as_u64().map(Duration::from_millis),
        hash: said["hash"].as_str().map(|hash| hash.parse().unwrap()),
        expires: said["expires_ms"].as_u64().map(UnixMillis::new),
        backoff: backoff(&said["backoff"]),
        group: said["group"].as_str().map(|group| Group::new(group).unwrap()),
        first: said["first_ms"].as_u64().map(UnixMillis::new),
        headers: headers(&said["headers"]),
        payload: bytes(&said["payload"]),
        zstd: said["zstd"].as_bool().unwrap(),
        blocks: said["blocks"].as_bool().unwrap(),
        held: said["held"].as_bool().unwrap(),
        has_successor: said["has_successor"].as_bool().unwrap(),
        paused: said["paused"].as_bool().unwrap(),
        blocked: said["blocked"].as_bool().unwrap(),
        reason: said["reason"].as_str().map(str::to_owned),
    }
}

#[test]
fn an_envelope_is_read_and_written_as_the_vectors_say() {
    for case in list(&vectors("envelope.json")["valid"]) {
        let stored = bytes(&case["hex"]);
        let envelope = envelope(&case["envelope"]);
        assert_eq!(Envelope::decode(&stored).as_ref(), Ok(&envelope), "{}", case["name"]);
        assert_eq!(envelope.encode(), stored, "{}", case["name"]);
    }
}

#[test]
fn what_is_no_envelope_is_refused_as_the_vectors_say() {
    for case in list(&vectors("envelope.json")["refused"]) {
        let error = Envelope::decode(&bytes(&case["hex"])).expect_err(text(&case["name"]));
        let word = if matches!(error, EnvelopeError::Newer(_) | EnvelopeError::NewerFlags(_)) {
            "newer"
        } else {
            "malformed"
        };
        assert_eq!(word, text(&case["error"]), "{}", case["name"]);
    }
}

#[test]
fn names_and_ids_are_what_the_vectors_say() {
    let vectors = vectors("names.json");
    for case in list(&vectors["crc32"]) {
        for (count, shard) in case["shards"].as_object().unwrap() {
            let count = ShardCount::new(count.parse().unwrap()).unwrap();
            let found = count.shard_of_name(text(&case["name"])).get();
            assert_eq!(u64::from(found), shard.as_u64().unwrap(), "{case}");
        }
    }
    for case in list(&vectors["ids"]) {
        let id: MessageId = text(&case["text"]).parse().unwrap();
        assert_eq!(id.as_bytes(), bytes(&case["hex"]), "{case}");
        assert_eq!(id.to_string(), text(&case["text"]));
        assert_eq!(id.shard().map(|shard| u64::from(shard.get())), case["shard"].as_u64(), "{case}");
        assert_eq!(MessageId::from_bytes(&bytes(&case["hex"])), Some(id), "{case}");
    }
    for case in list(&vectors["stored_ids"]) {
        let id: MessageId = text(&case["id"]).parse().unwrap();
        let group = case["group"].as_str().map(|group| Group::new(group).unwrap());
        let target = Target { id, group };
        assert_eq!(*target.stored(), bytes(&case["hex"]), "{case}");
        let found = Target::from_stored(&bytes(&case["hex"]));
        assert_eq!((&found.id, found.stored()), (&target.id, target.stored()), "{case}");
    }
    for case in list(&vectors["odd_ids"]) {
        let id: MessageId = text(&case["text"]).parse().unwrap();
        assert_eq!(Target::from_stored(&bytes(&case["hex"])), Target::from(id.clone()), "{case}");
        assert_eq!(
            (id.as_bytes(), id.to_string().as_str()),
            (&*bytes(&case["hex"]), text(&case["text"])),
            "{case}"
        );
    }
    for case in list(&vectors["odd_topics"]) {
        let topic: Topic = text(&case["text"]).parse().unwrap();
        assert_eq!(
            (topic.clone(), topic.is_odd()),
            (Topic::from_stored(&bytes(&case["hex"])), true),
            "{case}"
        );
        assert_eq!(
            (&*topic.as_bytes(), topic.as_str()),
            (&*bytes(&case["hex"]), text(&case["text"])),
            "{case}"
        );
    }
    let refused = |what: &str| list(&vectors["refused"][what]).iter().map(text).collect::<Vec<_>>();
    refused("id").iter().for_each(|name| drop(name.parse::<MessageId>().expect_err(name)));
    refused("group").iter().for_each(|name| drop(Group::new(*name).expect_err(name)));
    refused("topic").iter().for_each(|name| drop(Topic::new(*name).expect_err(name)));
    refused("namespace").iter().for_each(|name| drop(Namespace::new(*name).expect_err(name)));
}

#[test]
fn urls_of_several_hosts_are_taken_and_refused_as_the_vectors_say() {
    let vectors = vectors("urls.json");
    for case in list(&vectors["urls"]) {
        LinkSettings::new(text(&case["url"])).check().unwrap();
    }
    for case in list(&vectors["refused"]) {
        let refusal =
            LinkSettings::new(text(&case["url"])).check().expect_err(text(&case["url"])).to_string();
        assert!(refusal.contains(text(&case["named"])), "{case}: {refusal}");
        assert!(!refusal.contains("ter2"), "{refusal}");
    }
}

#[test]
fn a_script_is_put_together_as_the_vectors_say() {
    let case = vectors("assembly.json");
    let verb = *Verb::ALL.iter().find(|verb| verb.name() == text(&case["verb"])).unwrap();
    let scripts = Scripts::swapped(&|name, _| case["files"].get(name).map(|file| text(file).to_owned()));
    assert_eq!(scripts.get(verb).source, text(&case["source"]));
    assert_eq!(scripts.get(verb).sha, text(&case["sha1"]));
}

fn message(said: &Value) -> Message {
    let mut message = Message::new(Topic::new(text(&said["topic"])).unwrap(), bytes(&said["payload"]))
        .at(UnixMillis::new(4_102_444_800_000))
        .with_id(text(&said["id"]).parse().unwrap())
        .max_attempts(said["max_attempts"].as_u64().unwrap().try_into().unwrap());
    for (name, value) in headers(&said["headers"]) {
        message = message.header(name, value);
    }
    if let Some(group) = said["group"].as_str() {
        message = message.group(group).unwrap();
    }
    if let Some(expires) = said["expires_ms"].as_u64() {
        message = message.expires(UnixMillis::new(expires));
    }
    if let Some(backoff) = backoff(&said["backoff"]) {
        message = message.backoff(backoff);
    }
    message
}

/// The test reads Redis itself, like a client in another language.
#[tokio::test]
async fn a_put_stores_the_hash_and_the_fields_that_the_vectors_say() {
    let server = RedisServer::start().await;
    // An id of the vectors belongs to shard 3.
    let (client, _, producer) = created(settings(server.url(), 4)).await;
    for case in list(&vectors("put.json")["puts"]) {
        let put = producer.put(message(&case["message"])).await.unwrap();
        let base = Keys::new(client.namespace().clone()).base(put.reference.shard);
        let mut connection = server.connect_to(&base).await;
        let topic = format!("topic:{}", text(&case["message"]["topic"]));
        let no: String = redis::cmd("HGET")
            .arg(format!("{base}meta"))
            .arg(topic)
            .query_async(&mut connection)
            .await
            .unwrap();
        let key = [format!("{base}m:{no}:").as_bytes(), &Target::from(put.reference).stored()].concat();
        let stored: Vec<u8> = redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap();
        let sent = bytes(&case["envelope"]);
        assert_eq!(stored[2..4], sent[2..4], "the flags: {}", case["name"]);
        assert_eq!(stored[HEAD_BYTES..], sent[HEAD_BYTES..], "the fields: {}", case["name"]);
        let hash = Envelope::decode(&stored).unwrap().hash.map(|hash| hash.0.to_vec());
        assert_eq!(hash, case["hash"].is_string().then(|| bytes(&case["hash"])), "{}", case["name"]);
        assert_eq!(Envelope::decode(&sent).unwrap().max_attempts, sent_attempts(case), "{}", case["name"]);
    }
}

fn sent_attempts(case: &Value) -> u16 {
    case["message"]["max_attempts"].as_u64().unwrap().try_into().unwrap()
}

fn headers_of_scripts() -> String {
    let mut verbs: Vec<Verb> = Verb::ALL.to_vec();
    verbs.sort_by_key(|verb| verb.name());
    let section = |verb: Verb| {
        let header =
            |line: &&str| !line.starts_with("--# ") && (line.starts_with("--") || line.starts_with("#!"));
        let lines: Vec<&str> = verb.file().lines().take_while(header).collect();
        let bare =
            |line: &&str| line.strip_prefix("-- ").or(line.strip_prefix("--")).unwrap_or(line).to_owned();
        let text: Vec<String> = lines.iter().map(bare).collect();
        format!("\n### `{}`\n\n```text\n{}\n```\n", verb.name(), text.join("\n"))
    };
    verbs.into_iter().map(section).collect()
}

#[test]
fn the_protocol_document_has_the_headers_of_the_scripts_as_they_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let document = std::fs::read_to_string(path).unwrap();
    let marker = "writes them again. -->\n";
    let at = document.find(marker).expect("the marker of the headers") + marker.len();
    let text = format!("{}{}", &document[..at], headers_of_scripts());
    compare(path, &text, "-p delayq --test client -- vectors::");
}
