mod hostile;

use super::*;
use delayq::spool::SpoolAction;
use delayq::{Backoff, Due, Fate, Message, MessageId, Reschedule, Shift, Target};
use std::time::Duration;

const AT: UnixMillis = UnixMillis::new(1_766_000_000_000);
const NOW: UnixMillis = UnixMillis::new(1_766_000_009_000);

fn record(headers: &[(&str, &str)], body: &str) -> BrokerRecord {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    BrokerRecord { headers: headers.collect(), body: body.into(), at: Some(AT), ..BrokerRecord::default() }
}

fn reading(headers: &[(&str, &str)], body: &str) -> Result<SpoolRecord, String> {
    read(&record(headers, body), None, NOW)
}

fn message(read: SpoolRecord) -> Message {
    let SpoolAction::Put(message) = read.action else { panic!("{read:?} is no put") };
    Message::clone(&message)
}

fn seconds(seconds: u64) -> Due {
    Due::At(AT + Duration::from_secs(seconds))
}

#[test]
fn plain_headers_make_a_put_and_the_others_are_the_messages() {
    let headers = [
        ("delayq-topic", "orders"),
        ("Delayq-Id", "order-17"),
        ("delayq-delay", "30m"),
        ("delayq-group", "user-5"),
        ("delayq-max-attempts", "3"),
        ("delayq-backoff", "1s,5s"),
        ("delayq-expires", "2026-12-24T18:00:00+01:00"),
        ("x-region", "eu"),
        ("traceparent", "00-…"),
    ];
    let read = reading(&headers, "body").unwrap();
    assert_eq!((read.fate, read.tried_at), (Fate::NotApplied, AT));
    let expected = Message::new(Topic::new("orders").unwrap(), "body")
        .id("order-17")
        .unwrap()
        .due(seconds(1800))
        .group("user-5")
        .unwrap()
        .max_attempts(3)
        .backoff(Backoff::List(vec![Duration::from_secs(1), Duration::from_secs(5)]))
        .expires(UnixMillis::new(1_798_131_600_000))
        .header("x-region", "eu")
        .header("traceparent", "00-…");
    assert_eq!(
        read.target,
        Target { id: MessageId::own("order-17").unwrap(), group: expected.group.clone() }
    );
    assert_eq!(message(read), expected);
}

#[test]
fn a_due_time_is_milliseconds_or_rfc_3339_and_a_delay_counts_from_when_it_was_published() {
    let base = [("delayq-topic", "t"), ("delayq-id", "a")];
    for (name, value, expected) in [
        ("delayq-due", "1766000060000", seconds(60)),
        ("delayq-due", "2025-12-17T19:34:20Z", seconds(60)),
        ("delayq-delay", "1m", seconds(60)),
        ("delayq-delay", "0s", seconds(0)),
    ] {
        let read = reading(&[base[0], base[1], (name, value)], "").unwrap();
        assert_eq!(message(read).due, expected, "{name}: {value}");
    }
    assert_eq!(message(reading(&base, "").unwrap()).due, Due::After(Duration::ZERO));
    let undated = BrokerRecord { at: None, ..record(&[base[0], base[1], ("delayq-delay", "5s")], "") };
    assert_eq!(message(read(&undated, None, NOW).unwrap()).due, Due::After(Duration::from_secs(5)));
}

#[test]
fn verbs_make_cancels_and_reschedules() {
    let asking = |more: &[(&str, &str)]| {
        let base = [("delayq-topic", "t"), ("delayq-id", "a"), ("delayq-group", "g")];
        let read = reading(&[&base[..], more].concat(), "ignored").unwrap();
        assert_eq!(read.target.group.as_ref().map(delayq::Group::as_str), Some("g"));
        read.action
    };
    assert_eq!(asking(&[("delayq-verb", "cancel")]), SpoolAction::Cancel);
    let reschedule = ("delayq-verb", "reschedule");
    let expected = ("delayq-expected", "1766000000000");
    for (more, change) in [
        (vec![("delayq-delay", "5s")], Reschedule::To(seconds(5))),
        (vec![("delayq-delay", "5s"), expected], Reschedule::ToIfDue(seconds(5), AT)),
        (vec![("delayq-by", "+5s"), expected], Reschedule::By(Shift::Later(Duration::from_secs(5)), AT)),
        (vec![("delayq-by", "-5s"), expected], Reschedule::By(Shift::Earlier(Duration::from_secs(5)), AT)),
    ] {
        assert_eq!(asking(&[&[reschedule][..], &more].concat()), SpoolAction::Reschedule(change));
    }
}

#[test]
fn a_repeat_and_a_replacing_put_may_have_been_tried_since_they_were_published() {
    let base = [("delayq-topic", "t"), ("delayq-id", "a")];
    assert_eq!(reading(&base, "").unwrap().fate, Fate::NotApplied);
    let replacing = reading(&[base[0], base[1], ("delayq-replace", "true")], "").unwrap();
    assert_eq!((replacing.fate, replacing.tried_at), (Fate::NotApplied, AT));
    let headers = [base[0], base[1], ("delayq-replace", "true"), ("delayq-again", "sooner keep")];
    let SpoolAction::Put(again) = reading(&headers, "").unwrap().action else { panic!("a put") };
    assert_eq!(again.again.to_string(), "sooner keep");
    let repeat = BrokerRecord { is_repeat: true, ..record(&base, "") };
    assert_eq!(read(&repeat, None, NOW).unwrap().fate, Fate::Unknown);
}

#[test]
fn what_is_missing_comes_from_the_protocol_the_event_and_the_configuration_in_this_order() {
    let default = Topic::new("default").unwrap();
    let with_id =
        |headers: &[(&str, &str)]| BrokerRecord { id: Some("own".to_owned()), ..record(headers, "") };
    let found = |record: &BrokerRecord| {
        let read = read(record, Some(&default), NOW).unwrap();
        (read.topic.to_string(), read.target.id.to_string())
    };
    let pair = |topic: &str, id: &str| (topic.to_owned(), id.to_owned());
    assert_eq!(found(&with_id(&[])), pair("default", "own"));
    let event = [("ce_specversion", "1.0"), ("ce_id", "e1"), ("ce_type", "order.timeout")];
    assert_eq!(found(&with_id(&event)), pair("default", "e1"));
    let named = [&event[..], &[("delayq-id", "d1"), ("delayq-topic", "t")]].concat();
    assert_eq!(found(&with_id(&named)), pair("t", "d1"));
    assert_eq!(reading(&event, "").unwrap().topic.as_str(), "order.timeout");
}

#[test]
fn an_event_in_binary_mode_is_read_under_each_prefix_and_keeps_its_attributes() {
    for prefix in EVENT_PREFIXES {
        let names =
            ["specversion", "id", "type", "source", "delayqdelay", "delayqtopic", "delayqmaxattempts"]
                .map(|name| format!("{prefix}{name}"));
        let values = ["1.0", "e1", "com.example.order", "/shop", "5s", "orders", "2"];
        let mut headers: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
        headers.push(("content-type", "application/json"));
        let message = message(reading(&headers, "{}").unwrap());
        let expected = Message::new(Topic::new("orders").unwrap(), "{}")
            .id("/shop#e1")
            .unwrap()
            .due(seconds(5))
            .max_attempts(2)
            .header("ce-specversion", "1.0")
            .header("ce-id", "e1")
            .header("ce-type", "com.example.order")
            .header("ce-source", "/shop")
            .header("content-type", "application/json");
        assert_eq!(message, expected, "{prefix}");
    }
    // A record without a version is no event, and the headers stay unchanged.
    let plain = reading(&[("delayq-topic", "t"), ("delayq-id", "a"), ("ce_id", "x")], "").unwrap();
    assert_eq!(message(plain).headers, [("ce_id".to_owned(), "x".to_owned())]);
}

#[test]
fn attributes_of_an_event_are_read_in_any_case_and_none_that_asks_is_a_plain_header() {
    let attributes = ["Specversion", "ID", "Type", "DelayqTopic", "delayqDelay"];
    let values = ["1.0", "e1", "reminder", "orders", "5s"];
    for prefix in ["Ce-", "ce_", "CloudEvents:"] {
        let names = attributes.map(|attribute| format!("{prefix}{attribute}"));
        let headers: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
        let read = reading(&headers, "").unwrap();
        assert_eq!((read.topic.as_str(), &read.target.id), ("orders", &MessageId::own("e1").unwrap()));
        let message = message(read);
        let kept = [("ce-specversion", "1.0"), ("ce-id", "e1"), ("ce-type", "reminder")];
        assert_eq!(message.due, seconds(5), "{prefix}");
        assert_eq!(message.headers, kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let plain = [("delayq-topic", "t"), ("delayq-id", "a"), ("Ce-Delayqdelay", "5s")];
    let refusal = reading(&plain, "").unwrap_err();
    assert_eq!(refusal, "the header \"Ce-Delayqdelay\" is not part of an event: specversion is missing");
    let structured = [("content-type", "application/cloudevents+json"), ("ce_delayqdelay", "5s")];
    let document = r#"{"specversion":"1.0","id":"e1","type":"orders","source":"/s"}"#;
    assert!(reading(&structured, document).unwrap_err().contains("of an event in structured mode"));
}

#[test]
fn an_event_as_one_document_gives_payload_headers_and_what_is_asked() {
    let structured = ("content-type", "application/cloudevents+json; charset=utf-8");
    let reading = |more: &str| {
        let body = format!(r#"{{"specversion":"1.0","id":"e1","type":"orders","source":"/s"{more}}}"#);
        reading(&[structured, ("x-more", "1")], &body)
    };
    for (more, payload) in [
        (r#","data":{"b": 1,  "a":2}"#, &b"{\"b\": 1,  \"a\":2}"[..]),
        (r#","data":"text""#, b"\"text\""),
        (r#","datacontenttype":"text/plain","data":"t\u00e9xt""#, "téxt".as_bytes()),
        (r#","data":null"#, b"null"),
        (r#","data_base64":"AP8=""#, &[0, 255]),
        ("", b""),
    ] {
        assert_eq!(message(reading(more).unwrap()).payload, payload, "{more}");
    }
    let asked =
        message(reading(r#","delayqdelay":"5s","delayqreplace":true,"delayqmaxattempts":3"#).unwrap());
    assert!(asked.due == seconds(5) && asked.replace && asked.max_attempts == 3, "{asked:?}");
    let names: Vec<_> = asked.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ce-id", "ce-source", "ce-specversion", "ce-type", "x-more"]);
    let cancel = reading(r#","delayqverb":"cancel""#).unwrap();
    assert_eq!((cancel.action, cancel.target.id.to_string()), (SpoolAction::Cancel, "/s#e1".to_owned()));
    let own = reading(r#","delayqid":"own""#).unwrap();
    assert_eq!(own.target.id.to_string(), "own");
}

#[test]
fn a_due_time_is_spread_by_the_id_as_everywhere() {
    let due = |name, value| {
        let base = [("delayq-topic", "t"), ("delayq-id", "order-17"), ("delayq-due", "1796094000000")];
        message(reading(&[&base[..], &[(name, value)]].concat(), "").unwrap()).due
    };
    let at = |ms| Due::At(UnixMillis::new(ms));
    assert_eq!(due("delayq-jitter", "1h"), at(1_796_094_000_000 + 1_612_411));
    assert_eq!(due("delayq-between", "09:00-10:00 Europe/Berlin"), at(1_796_113_612_411));
}

#[test]
fn what_cannot_be_read_is_refused_with_what_is_wrong() {
    let base = [("delayq-topic", "t"), ("delayq-id", "a")];
    for (more, part) in [
        (vec![("delayq-dely", "5s")], "unknown header delayq-dely"),
        (vec![("delayq-id", "b")], "delayq-id occurs twice"),
        (vec![("delayq-delay", "5")], "delayq-delay is \"5\""),
        (vec![("delayq-due", "soon")], "expected milliseconds since the epoch, or RFC 3339"),
        (vec![("delayq-due", "1766000000")], "if seconds were meant, write 1766000000000"),
        (vec![("delayq-due", "99999999999999999999")], "is not between 1 and"),
        (vec![("delayq-due", "1766000000000000")], "if microseconds were meant, write 1766000000000"),
        (vec![("delayq-due", "2026-12-24T18:00:00")], "an offset or a time zone is missing"),
        (vec![("delayq-due", "2026-10-25T02:30:00[Europe/Berlin]")], "occurs twice"),
        (vec![("delayq-expires", "2026-12-24T18:00:00+05:00[Europe/Berlin]")], "contradicts the zone"),
        (vec![("delayq-expire-after", "10")], "delayq-expire-after is \"10\": "),
        (vec![("delayq-due", "1766000060000"), ("delayq-delay", "5s")], "both"),
        (vec![("delayq-verb", "delete")], "expected put, cancel or reschedule"),
        (vec![("delayq-verb", "cancel"), ("delayq-delay", "5s")], "a cancel takes no delayq-delay"),
        (vec![("delayq-verb", "cancel"), ("delayq-replace", "true")], "a cancel takes no delayq-replace"),
        (vec![("delayq-verb", "cancel"), ("delayq-jitter", "5s")], "a cancel takes no delayq-jitter"),
        (vec![("delayq-jitter", "soon")], "delayq-jitter is \"soon\": "),
        (vec![("delayq-between", "09:00-10:00 UTC"), ("delayq-jitter", "5s")], "keep one"),
        (vec![("delayq-verb", "reschedule")], "a reschedule needs one of"),
        (vec![("delayq-verb", "reschedule"), ("delayq-by", "+5s")], "needs delayq-expected"),
        (vec![("delayq-by", "+5s")], "a put takes no delayq-by"),
        (vec![("delayq-replace", "yes")], "expected true or false"),
        (vec![("delayq-again", "later")], "delayq-again is \"later\": needs replace"),
        (vec![("delayq-replace", "true"), ("delayq-again", "soon")], "\"soon\" is not a mode"),
        (vec![("delayq-replace", "true"), ("delayq-again", "swallow=1m")], "\"swallow=1m\" is not a mode"),
        (vec![("delayq-verb", "cancel"), ("delayq-again", "later")], "a cancel takes no delayq-again"),
        (vec![("delayq-max-attempts", "-1")], "expected a number up to 65535"),
        (vec![("delayq-group", "")], "it is empty"),
        (vec![("content-type", "application/cloudevents-batch+json")], "only application/cloudevents+json"),
        (vec![("content-type", "application/cloudevents+json")], "not a JSON event"),
        (vec![("ce_specversion", "0.3")], "specversion is 0.3"),
        (vec![("ce_specversion", "1.0"), ("ce_id", "x"), ("ce-id", "y")], "the attribute id occurs twice"),
    ] {
        let refusal = reading(&[&base[..], &more].concat(), "").unwrap_err();
        assert!(refusal.contains(part), "{more:?}: {refusal}");
    }
    assert_eq!(reading(&[("delayq-topic", "t")], "").unwrap_err(), "delayq-id is missing");
    assert_eq!(reading(&[("delayq-id", "a")], "").unwrap_err(), "delayq-topic is missing");
    let binary = BrokerRecord { headers: vec![("x".to_owned(), vec![0xff])], ..record(&base, "") };
    assert_eq!(read(&binary, None, NOW).unwrap_err(), "the value of the header \"x\" is not UTF-8");
}

#[test]
fn a_document_that_is_no_event_is_refused_without_its_words() {
    let structured = ("content-type", "application/cloudevents+json");
    for (body, part) in [
        (r#""hunter2""#, "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("", "not a JSON object"),
        ("{", "EOF while parsing"),
        (r#"{"specversion":null,"id":"hunter2"}"#, "specversion is missing"),
        (r#"{"specversion":"1.0","id":"a","id":"hunter2"}"#, "the member \"id\" occurs twice"),
        (r#"{"specversion":"1.0","id":["hunter2"]}"#, "the attribute id is neither"),
        (r#"{"specversion":"1.0","data":"hunter2","data_base64":""}"#, "both data and data_base64"),
        (r#"{"specversion":"1.0","data_base64":"hunter2!"}"#, "data_base64: "),
        (
            r#"{"specversion":"1.0","datacontenttype":"text/plain","data":"hunter2\ud800"}"#,
            "data: unexpected end",
        ),
    ] {
        let refusal = reading(&[structured], body).unwrap_err();
        assert!(refusal.contains(part) && !refusal.contains("hunter2"), "{body}: {refusal}");
    }
}

#[test]
fn a_delay_counts_from_no_time_that_cannot_be_that_of_its_publication() {
    let base = [("delayq-topic", "t"), ("delayq-id", "a")];
    for at in [0, 1_766_000_000, UnixMillis::MAX.get() + 1, u64::MAX] {
        let of = |headers: &[(&str, &str)]| {
            read(&BrokerRecord { at: Some(UnixMillis::new(at)), ..record(headers, "") }, None, NOW)
        };
        assert_eq!(of(&base).unwrap().target.id, MessageId::own("a").unwrap(), "nothing counts from it");
        let refusal = of(&[base[0], base[1], ("delayq-delay", "5s")]).unwrap_err();
        assert!(refusal.contains(&format!("{at} ms since 1970")), "{refusal}");
    }
}

#[test]
fn what_a_delivery_or_a_dead_letter_carried_is_not_asked_again() {
    let headers = [
        ("delayq-topic", "t"),
        ("delayq-id", "a"),
        ("delayq-attempt", "3"),
        ("delayq-late-ms", "0.100"),
        ("delayq-reason", "refused"),
        ("delayq-origin", "orders-in/0 offset 7"),
    ];
    let message = message(reading(&headers, "").unwrap());
    assert!(message.headers.is_empty() && message.max_attempts == 0, "{message:?}");
}

#[test]
fn events_of_two_sources_that_have_the_same_id_are_two_messages() {
    let id = |source: &str| {
        let event = [("ce_specversion", "1.0"), ("ce_id", "1"), ("ce_type", "t"), ("ce_source", source)];
        reading(&event, "").unwrap().target.id
    };
    assert_ne!(id("/shop/a"), id("/shop/b"));
}

#[test]
fn a_tombstone_is_no_put_and_may_be_a_cancel() {
    let of = |headers: &[(&str, &str)]| {
        read(&BrokerRecord { has_no_value: true, ..record(headers, "") }, None, NOW)
    };
    let base = [("delayq-topic", "t"), ("delayq-id", "a")];
    assert!(of(&base).unwrap_err().contains("a tombstone is not a put"));
    let cancel = of(&[base[0], base[1], ("delayq-verb", "cancel")]).unwrap();
    assert_eq!(cancel.action, SpoolAction::Cancel);
}
