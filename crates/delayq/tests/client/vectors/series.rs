//! Messages of several dates.

use super::{list, millis, text, vectors};
use delayq::{Due, Message, Topic, UnixMillis};

fn message(id: Option<&str>) -> Message {
    let message = Message::new(Topic::new("t").unwrap(), "x");
    match id {
        Some(id) => message.with_id(id.parse().unwrap()),
        None => message,
    }
}

#[test]
fn a_series_has_the_same_ids_everywhere_and_is_a_group() {
    for case in list(&vectors("series.json")["series"]) {
        let (id, dues) = (text(&case["id"]), list(&case["due_ms"]));
        let messages = message(Some(id)).series(dues.iter().map(|at| Due::At(millis(at)))).unwrap();
        let ids: Vec<String> = messages.iter().map(|one| one.id.as_ref().unwrap().to_string()).collect();
        assert_eq!(ids, list(&case["ids"]).iter().map(text).collect::<Vec<_>>(), "{}", case["name"]);
        let groups = messages.iter().map(|one| one.group.as_ref().unwrap().as_str());
        assert!(groups.eq(dues.iter().map(|_| text(&case["group"]))), "{}", case["name"]);
        assert!(messages.iter().map(|one| one.due).eq(dues.iter().map(|at| Due::At(millis(at)))));
    }
}

#[test]
fn what_is_no_series_is_refused_by_name() {
    for case in list(&vectors("series.json")["refused"]) {
        let mut message = message(case["id"].as_str());
        if let Some(group) = case["group"].as_str() {
            message = message.group(group).unwrap();
        }
        let dates = usize::try_from(case["dates"].as_u64().unwrap()).unwrap();
        let due = Due::At(UnixMillis::new(1_900_000_000_000));
        let refused = message.series(std::iter::repeat_n(due, dates)).unwrap_err();
        assert!(refused.to_string().contains(text(&case["why"])), "{}: {refused}", case["name"]);
    }
}
