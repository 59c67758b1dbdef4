//! Namespaces and queues, and their topics: `NAMESPACE/QUEUE`.

use super::reply::{self, Refusal};
use delayq::Topic;

/// Maximum bytes of a name in lmstfy.
const MAX_NAME: usize = 255;

/// The error is the answer to a name that lmstfy refuses, or that no topic can have.
pub(super) fn topic(namespace: &str, queue: &str) -> Result<Topic, Refusal> {
    let too_long = || reply::error(400, "namespace or queue name too long");
    if namespace.len() > MAX_NAME || queue.len() > MAX_NAME {
        return Err(too_long());
    }
    check_namespace(namespace)?;
    if queue.starts_with('_') || !is_name(queue) {
        return Err(reply::error(400, "queue name contains forbidden characters"));
    }
    any_topic(namespace, queue).ok_or_else(too_long)
}

/// In the order of the list; names that no topic can have are left out.
pub(super) fn topics(namespace: &str, queues: &str) -> Result<Vec<Topic>, Refusal> {
    check_namespace(namespace)?;
    if queues.is_empty() || !queues.split(',').all(|queue| queue.is_empty() || is_name(queue)) {
        return Err(reply::error(400, "queue name contains forbidden characters"));
    }
    let named = queues.split(',').filter(|queue| !queue.is_empty());
    Ok(named.filter_map(|queue| any_topic(namespace, queue)).collect())
}

pub(super) fn check_namespace(namespace: &str) -> Result<(), Refusal> {
    if is_name(namespace) {
        return Ok(());
    }
    Err(reply::error(400, "namespace name contains forbidden characters"))
}

/// `None` if no queue has the topic.
pub(super) fn parts(topic: &Topic) -> Option<(&str, &str)> {
    let (namespace, queue) = topic.as_str().split_once('/')?;
    (is_name(namespace) && is_name(queue)).then_some((namespace, queue))
}

fn any_topic(namespace: &str, queue: &str) -> Option<Topic> {
    Topic::new(format!("{namespace}/{queue}")).ok()
}

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_refused_where_lmstfy_refuses_it_or_no_topic_has_room() {
        assert_eq!(topic("ns", "q-1").unwrap().as_str(), "ns/q-1");
        for (namespace, queue) in [("n s", "q"), ("", "q"), ("ns", "_q"), ("ns", "q.1"), ("ns", "")] {
            assert!(topic(namespace, queue).is_err(), "{namespace}/{queue}");
        }
        assert!(topic(&"n".repeat(63), &"q".repeat(64)).is_ok());
        assert!(topic(&"n".repeat(64), &"q".repeat(64)).is_err());
    }

    #[test]
    fn a_list_of_queues_keeps_its_order_and_skips_empty_names() {
        let names: Vec<String> = topics("ns", ",b,,_a").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["ns/b", "ns/_a"]);
        assert!(topics("ns", ",").unwrap().is_empty());
        assert!(topics("ns", "a b").is_err());
        assert!(topics("ns", &"q".repeat(200)).unwrap().is_empty());
    }
}
