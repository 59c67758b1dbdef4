//! A row of the outbox as a write.

use delayq::protocol::{Again, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, RecordId};
use delayq::spool::SpoolRecord;
use delayq::{Due, Fate, Group, Message, MessageId, Reschedule, Target, Topic, UnixMillis};
use delayq_service::put_line::again;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No deployment allows a longer payload: a longer payload is not read.
pub(super) const MAX_PAYLOAD: usize = MAX_PAYLOAD_BYTES;
/// Headers with longer JSON are not read. JSON has escapes of six bytes for a single byte.
pub(super) const MAX_HEADERS: usize = 8 * MAX_HEADER_BYTES;

/// Maximum bytes of payloads and headers in a page of several rows.
pub(super) const MAX_PAGE_BYTES: i64 = 8 << 20;

/// The identity of a row.
pub(super) type RowKey = (i64, i64);

/// The columns of a row that ask for a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutboxRow {
    pub(crate) verb: String,
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) group_id: Option<String>,
    pub(crate) due: Option<SystemTime>,
    pub(crate) delay_ms: Option<i64>,
    pub(crate) expected: Option<SystemTime>,
    pub(crate) payload: Option<Vec<u8>>,
    /// JSON.
    pub(crate) headers: Option<String>,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) max_attempts: Option<i32>,
    pub(crate) replaces: bool,
    /// The words of an [`Again`].
    pub(crate) again: Option<String>,
    /// Time of waiting, by the database's clock.
    pub(crate) age: Duration,
    /// Why the row was not read completely.
    pub(crate) fault: Option<String>,
    /// An older row of the message rests.
    pub(crate) is_behind: bool,
    /// The number and the time of insertion, together unique.
    pub(crate) key: String,
}

// === impl OutboxRow ===

impl OutboxRow {
    /// The id by which Redis recognises a repeat.
    pub(crate) fn id(&self) -> RecordId {
        RecordId::of([
            b"outbox",
            self.key.as_bytes(),
            self.verb.as_bytes(),
            self.topic.as_bytes(),
            self.id.as_bytes(),
        ])
    }

    /// How a put meets a pending message; invalid words are refused by [`Self::record`].
    pub(crate) fn again(&self) -> Again {
        self.again.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The write. A delay counts from the insertion of the row.
    ///
    /// # Errors
    /// The row can never be carried out.
    pub(crate) fn record(self, now: UnixMillis) -> Result<SpoolRecord, String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let tried_at = UnixMillis::new(now.get().saturating_sub(millis(self.age)));
        let due = self.due()?;
        let topic = Topic::new(self.topic).map_err(|error| error.to_string())?;
        let id: MessageId = self.id.parse().map_err(|error| format!("{error}"))?;
        let group = self.group_id.map(Group::new).transpose().map_err(|error| error.to_string())?;
        let target = Target { id, group };
        match self.verb.as_str() {
            "cancel" => Ok(SpoolRecord::cancel(&topic, &target, tried_at)),
            "reschedule" => {
                let due = due.ok_or("a reschedule without `due` and `delay_ms`")?;
                let change = match self.expected.map(|at| time("expected", at)).transpose()? {
                    Some(expected) => Reschedule::ToIfDue(due, expected),
                    None => Reschedule::To(due),
                };
                Ok(SpoolRecord::reschedule(&topic, &target, change, tried_at))
            }
            "put" => {
                let mut message = Message::new(topic, self.payload.unwrap_or_default()).with_id(target.id);
                message.due = due.unwrap_or(Due::After(Duration::ZERO));
                message.group = target.group;
                message.headers = self.headers.as_deref().map_or(Ok(Vec::new()), headers)?;
                message.expires = self.expires.map(|at| time("expires", at)).transpose()?;
                let attempts = u16::try_from(self.max_attempts.unwrap_or(0));
                message.max_attempts = attempts.map_err(|_| "max_attempts: expected 0 to 65535")?;
                message.replace = self.replaces;
                if let Some(text) = &self.again {
                    message.again = again(text, self.replaces).map_err(|why| format!("again: {why}"))?;
                }
                Ok(SpoolRecord::put(&message, Fate::NotApplied, tried_at))
            }
            other => Err(format!("verb {other:?}: expected put, cancel or reschedule")),
        }
    }

    fn due(&self) -> Result<Option<Due>, String> {
        match (self.due, self.delay_ms) {
            (Some(_), Some(_)) => Err("both `due` and `delay_ms` are set".to_owned()),
            (Some(at), None) => Ok(Some(Due::At(time("due", at)?))),
            (None, Some(ms)) => {
                let ms = u64::try_from(ms).map_err(|_| "delay_ms: expected 0 or more")?;
                Ok(Some(Due::After(Duration::from_millis(ms))))
            }
            (None, None) => Ok(None),
        }
    }
}

/// A time in whole milliseconds, rounded up.
pub(super) fn time(column: &str, at: SystemTime) -> Result<UnixMillis, String> {
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| format!("{column}: it is before 1970"))?;
    Ok(UnixMillis::new(millis(since + Duration::from_nanos(999_999))))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Headers in the order of an array of pairs, or of an object by name; `null`, which object mappers write for a missing
/// value, means no headers. The parser's error is left out, because that quotes values.
fn headers(json: &str) -> Result<Vec<(String, String)>, String> {
    let read = match json.trim_start().as_bytes().first() {
        Some(b'[') => serde_json::from_str(json),
        _ => serde_json::from_str::<Option<BTreeMap<_, _>>>(json)
            .map(|found| found.unwrap_or_default().into_iter().collect()),
    };
    read.map_err(|error| {
        format!(
            "headers: expected an object of strings, or an array of pairs of strings, at byte {}",
            error.column()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::spool::{Resubmit, SpoolAction};

    const MINUTE: Duration = Duration::from_secs(60);
    const NOW: UnixMillis = UnixMillis::new(1_800_000_000_000);

    fn row(verb: &str) -> OutboxRow {
        OutboxRow {
            verb: verb.to_owned(),
            topic: "orders".to_owned(),
            id: "order-17".to_owned(),
            ..OutboxRow::default()
        }
    }

    fn at(ms: u64, nanos: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms) + Duration::from_nanos(nanos)
    }

    #[test]
    fn a_put_has_all_that_its_columns_say_and_is_never_due_before_its_time() {
        let full = OutboxRow {
            group_id: Some("user-5".to_owned()),
            due: Some(at(5, 1_000)),
            payload: Some(vec![0, 255]),
            headers: Some(r#"[["b","1"],["a","2"]]"#.to_owned()),
            expires: Some(at(9, 0)),
            max_attempts: Some(3),
            replaces: true,
            again: Some("within=60000 keep".to_owned()),
            ..row("put")
        };
        let SpoolAction::Put(message) = full.record(NOW).unwrap().action else { panic!("a put") };
        let expected = Message::new(Topic::new("orders").unwrap(), [0, 255]).at(UnixMillis::new(6));
        let expected =
            expected.id("order-17").unwrap().group("user-5").unwrap().header("b", "1").header("a", "2");
        assert_eq!(
            *message,
            expected.expires(UnixMillis::new(9)).max_attempts(3).debounce(MINUTE).keep_content()
        );
        let none = OutboxRow { headers: Some("null".to_owned()), ..row("put") };
        let SpoolAction::Put(message) = none.record(NOW).unwrap().action else { panic!("a put") };
        assert_eq!(message.headers, []);
        let plain = OutboxRow { headers: Some(r#"{"b":"1","a":"2"}"#.to_owned()), ..row("put") };
        let SpoolAction::Put(message) = plain.record(NOW).unwrap().action else { panic!("a put") };
        assert_eq!(message.due, Due::After(Duration::ZERO));
        assert_eq!(message.headers, [("a", "2"), ("b", "1")].map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn a_delay_counts_from_when_the_row_was_added_and_no_row_says_that_it_was_tried() {
        let waited = OutboxRow { delay_ms: Some(30_000), age: Duration::from_secs(10), ..row("put") };
        let record = waited.record(NOW).unwrap();
        let Resubmit::Put(message) = record.resubmit(NOW, None) else { panic!("a put") };
        assert_eq!(message.due, Due::After(Duration::from_secs(20)));
        assert_eq!(message.tried, None, "its record says whether it was carried out");
    }

    #[test]
    fn a_reschedule_may_expect_a_due_time_and_a_cancel_has_none() {
        let moved = OutboxRow { due: Some(at(7, 0)), expected: Some(at(5, 0)), ..row("reschedule") };
        let change = Reschedule::ToIfDue(Due::At(UnixMillis::new(7)), UnixMillis::new(5));
        assert_eq!(moved.record(NOW).unwrap().action, SpoolAction::Reschedule(change));
        assert_eq!(row("cancel").record(NOW).unwrap().action, SpoolAction::Cancel);
    }

    #[test]
    fn what_can_never_be_carried_out_is_named() {
        let put = || row("put");
        for (row, expected) in [
            (row("delete"), "verb \"delete\""),
            (row("reschedule"), "without `due`"),
            (OutboxRow { topic: "a b".to_owned(), ..put() }, "topic"),
            (OutboxRow { id: String::new(), ..put() }, "it is empty"),
            (OutboxRow { group_id: Some("\n".to_owned()), ..put() }, "control character"),
            (OutboxRow { due: Some(at(1, 0)), delay_ms: Some(1), ..put() }, "both"),
            (OutboxRow { due: Some(UNIX_EPOCH - Duration::from_secs(1)), ..put() }, "due: it is before 1970"),
            (OutboxRow { delay_ms: Some(-1), ..put() }, "delay_ms"),
            (OutboxRow { headers: Some(r#"{"n":1}"#.to_owned()), ..put() }, "headers: expected an object"),
            (OutboxRow { headers: Some(r#""hidden""#.to_owned()), ..put() }, "headers: expected an object"),
            (OutboxRow { fault: Some("payload: 9".to_owned()), ..put() }, "payload: 9"),
            (OutboxRow { max_attempts: Some(70_000), ..put() }, "max_attempts"),
            (OutboxRow { again: Some("later".to_owned()), ..put() }, "again: needs replace"),
            (
                OutboxRow { again: Some("soon".to_owned()), replaces: true, ..put() },
                "again: \"soon\" is not a mode",
            ),
            (
                OutboxRow { again: Some("throttle=0".to_owned()), replaces: true, ..put() },
                "again: \"throttle=0\" is not a mode",
            ),
        ] {
            let shown = format!("{row:?}");
            let why = row.record(NOW).unwrap_err();
            assert!(why.contains(expected) && !why.contains("hidden"), "{shown}: {why}");
        }
    }
}
