//! Due times that are spread by id.

use super::{list, millis, text, vectors};
use delayq::Due;
use std::time::Duration;

#[test]
fn an_id_has_the_same_time_in_a_window_everywhere() {
    for case in list(&vectors("windows.json")["windows"]) {
        let due = Due::between(text(&case["window"]), text(&case["id"]), millis(&case["earliest_ms"]));
        assert_eq!(due, Ok(Due::At(millis(&case["due_ms"]))), "{}", case["name"]);
    }
}

#[test]
fn what_is_no_window_is_refused_by_name() {
    for case in list(&vectors("windows.json")["refused"]) {
        let fault =
            Due::between(text(&case["window"]), "a", millis(&1_800_000_000_000_u64.into())).unwrap_err();
        assert!(fault.to_string().contains(text(&case["why"])), "{}: {fault}", case["name"]);
    }
}

#[test]
fn an_id_has_the_same_jitter_everywhere() {
    for case in list(&vectors("windows.json")["offsets"]) {
        let span = Duration::from_millis(case["span_ms"].as_u64().unwrap());
        let offset = Duration::from_millis(case["offset_ms"].as_u64().unwrap());
        let day = Duration::from_secs(86_400);
        assert_eq!(Due::After(day).jitter(text(&case["id"]), span), Due::After(day + offset), "{case}");
    }
}
