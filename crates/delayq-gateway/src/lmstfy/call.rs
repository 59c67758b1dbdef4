//! The calls of lmstfy's API, by method and path.

use axum::http::Method;
use percent_encoding::percent_decode_str;

/// Ids are of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueAction {
    Publish,
    PublishMany,
    Republish(String),
    Consume,
    PeekQueue,
    PeekJob(String),
    Delete(String),
    Destroy,
    Size,
    PeekDead,
    DeadSize,
    Respawn,
    DeleteDead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueCall {
    pub(super) namespace: String,
    /// A consume may name several, separated by commas.
    pub(super) queue: String,
    pub(super) action: QueueAction,
}

// === impl QueueAction ===

impl QueueAction {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::PublishMany => "bulk publish",
            Self::Republish(_) => "republish",
            Self::Consume => "consume",
            Self::PeekQueue => "peek queue",
            Self::PeekJob(_) => "peek job",
            Self::Delete(_) => "delete",
            Self::Destroy => "destroy",
            Self::Size => "size",
            Self::PeekDead => "peek dead letters",
            Self::DeadSize => "size of dead letters",
            Self::Respawn => "respawn",
            Self::DeleteDead => "delete dead letters",
        }
    }

    pub(super) const fn is_public(&self) -> bool {
        matches!(self, Self::Size | Self::DeadSize)
    }
}

// === impl QueueCall ===

impl QueueCall {
    /// `None`: no call has this method and path.
    pub(super) fn of(method: &Method, path: &str) -> Option<Self> {
        let segments = segments(path)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (namespace, queue, rest) = match segments.as_slice() {
            ["api", namespace, queue, rest @ ..] if !queue.is_empty() => (namespace, queue, rest),
            _ => return None,
        };
        let action = match (method.as_str(), rest) {
            ("PUT", []) => QueueAction::Publish,
            ("PUT", ["bulk"]) => QueueAction::PublishMany,
            ("PUT", ["job", id]) if !id.is_empty() => QueueAction::Republish((*id).to_owned()),
            ("PUT", ["deadletter"]) => QueueAction::Respawn,
            ("GET", []) => QueueAction::Consume,
            ("GET", ["peek"]) => QueueAction::PeekQueue,
            ("GET", ["job", id]) if !id.is_empty() => QueueAction::PeekJob((*id).to_owned()),
            ("GET", ["size"]) => QueueAction::Size,
            ("GET", ["deadletter"]) => QueueAction::PeekDead,
            ("GET", ["deadletter", "size"]) => QueueAction::DeadSize,
            ("DELETE", []) => QueueAction::Destroy,
            ("DELETE", ["job", id]) if !id.is_empty() => QueueAction::Delete((*id).to_owned()),
            ("DELETE", ["deadletter"]) => QueueAction::DeleteDead,
            _ => return None,
        };
        Some(Self { namespace: (*namespace).to_owned(), queue: (*queue).to_owned(), action })
    }
}

/// The decoded segments of a path, the first `/` left out. As in Go, an encoded `/` separates like any other.
pub(super) fn segments(path: &str) -> Option<Vec<String>> {
    let path = percent_decode_str(path).decode_utf8_lossy();
    Some(path.strip_prefix('/')?.split('/').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(method: &str, path: &str) -> Option<QueueAction> {
        QueueCall::of(&method.parse().unwrap(), path).map(|call| call.action)
    }

    #[test]
    fn a_call_is_found_by_method_and_path_and_by_nothing_else() {
        assert_eq!(action("PUT", "/api/ns/q"), Some(QueueAction::Publish));
        assert_eq!(action("GET", "/api/ns/a,b"), Some(QueueAction::Consume));
        assert_eq!(action("DELETE", "/api/ns/q/job/X"), Some(QueueAction::Delete("X".to_owned())));
        assert_eq!(action("GET", "/api/ns/q/deadletter/size"), Some(QueueAction::DeadSize));
        let consumed = QueueCall::of(&Method::GET, "/api/n%73/q%2Fpeek").unwrap();
        assert_eq!((consumed.namespace.as_str(), consumed.action), ("ns", QueueAction::PeekQueue));
        for (method, path) in [
            ("POST", "/api/ns/q"),
            ("HEAD", "/api/ns/q"),
            ("OPTIONS", "/api/ns/q"),
            ("GET", "/api/ns/q/"),
            ("GET", "/api/ns"),
            ("GET", "/api/ns/"),
            ("GET", "/api/ns/q/job/"),
            ("GET", "/"),
            ("PUT", "/api/ns/q/size"),
        ] {
            assert_eq!(action(method, path), None, "{method} {path}");
        }
    }
}
