//! The routes, in the order of a message's life.

use super::{Method, Route, RouteAnswers, Takes};
use crate::rights::Right;
use std::sync::LazyLock;

/// Headers of puts: those that describe a message whose payload is the body, between those of a repeat; then conditions.
const PUTTING: &[&str] = &[
    "idempotency-key",
    "delayq-due",
    "delayq-between",
    "delayq-jitter",
    "delayq-group",
    "delayq-expires",
    "delayq-expire-after",
    "delayq-max-attempts",
    "delayq-backoff",
    "delayq-replace",
    "delayq-again",
    "delayq-tried",
    "if-match",
    "if-none-match",
];
const OF_PUT: &[&str] = PUTTING.split_at(1).1;
const OF_POST: &[&str] = PUTTING.split_at(PUTTING.len() - 2).0;
/// The headers that describe a message.
pub(crate) const DESCRIBING: &[&str] = OF_PUT.split_at(OF_PUT.len() - 3).0;

const PUT: RouteAnswers = RouteAnswers::Json("Put", &[201, 200, 202]);

/// Every route.
pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let by_body = WITH_NAMES_IN_PATHS.iter().filter_map(Route::by_body);
    WITH_NAMES_IN_PATHS.iter().copied().chain(by_body).collect()
});

static WITH_NAMES_IN_PATHS: &[Route] = &[
    Route {
        query: &["group", "past_ok"],
        asks: OF_PUT,
        takes_message_headers: true,
        takes: Takes::Message,
        answers: PUT,
        refuses: &[408, 409, 412, 413, 415, 422],
        needs: Some(Right::Put),
        ..Route::new(
            Method::Put,
            "/v1/topics/{topic}/messages/{id}",
            "putMessage",
            "Puts a message under your own id; 202: spooled, because Redis is unavailable",
        )
    },
    Route {
        query: &["past_ok"],
        asks: OF_POST,
        takes_message_headers: true,
        takes: Takes::Message,
        answers: PUT,
        refuses: &[408, 409, 413, 415, 422],
        needs: Some(Right::Put),
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/messages",
            "postMessage",
            "Puts a message under a generated id, or under the Idempotency-Key; 202: spooled",
        )
    },
    Route {
        query: &["past_ok"],
        takes: Takes::LinesOrEvents("Message"),
        answers: RouteAnswers::LinesOr("PutLine", "Put", &[201, 200, 202]),
        refuses: &[408, 409, 413, 415, 422],
        has_deadline: false,
        needs: Some(Right::Put),
        ..Route::new(
            Method::Post,
            "/v1/messages",
            "putMany",
            "Puts a message a line, or each event of an array: answers a line each, in order, and a closing line; or one event",
        )
    },
    Route {
        query: &["group", "payload"],
        asks: &["if-none-match"],
        answers: RouteAnswers::Json("Stored", &[200]),
        refuses: &[404, 422],
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/messages/{id}",
            "getMessage",
            "Shows a message, or what is remembered of it",
        )
    },
    Route {
        query: &["group"],
        answers: RouteAnswers::Bytes,
        refuses: &[404, 422],
        needs: Some(Right::Payload),
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/messages/{id}/payload",
            "getPayload",
            "Returns the payload of a message",
        )
    },
    Route {
        query: &["group"],
        answers: RouteAnswers::Json("History", &[200]),
        refuses: &[404, 422],
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/messages/{id}/history",
            "getHistory",
            "Shows what happened to a message, if its topic keeps a history",
        )
    },
    Route {
        query: &["group"],
        asks: &["if-match"],
        answers: RouteAnswers::Json("Cancelled", &[200, 202]),
        refuses: &[404, 409, 412, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Delete,
            "/v1/topics/{topic}/messages/{id}",
            "cancelMessage",
            "Cancels a message; 202: a consumer holds it, and no further attempt follows, or spooled",
        )
    },
    Route {
        query: &["group", "past_ok"],
        asks: &["if-match"],
        takes: Takes::Json("Reschedule"),
        answers: RouteAnswers::Json("Rescheduled", &[200, 202]),
        refuses: &[404, 408, 409, 412, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/messages/{id}/reschedule",
            "rescheduleMessage",
            "Changes the due time of a pending message; 202: spooled",
        )
    },
    Route {
        query: &["group"],
        asks: &["if-match"],
        takes: Takes::MaybeJson("Replay"),
        answers: RouteAnswers::Json("Replayed", &[200]),
        refuses: &[404, 408, 409, 412, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/messages/{id}/replay",
            "replayMessage",
            "Makes a dead letter ready again",
        )
    },
    Route {
        query: &["group"],
        asks: &["if-match"],
        takes: Takes::Json("Bury"),
        answers: RouteAnswers::Json("Buried", &[200]),
        refuses: &[404, 408, 409, 412, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/messages/{id}/bury",
            "buryMessage",
            "Makes a pending message a dead letter, for a reason that is kept with it",
        )
    },
    Route {
        takes: Takes::Many("TargetToCancel"),
        answers: RouteAnswers::Many("Cancelled"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(Method::Post, "/v1/cancel", "cancelMany", "Cancels messages that are named in the body")
    },
    Route {
        query: &["past_ok"],
        takes: Takes::Many("TargetToReschedule"),
        answers: RouteAnswers::Many("Rescheduled"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/reschedule",
            "rescheduleMany",
            "Reschedules messages that are named in the body",
        )
    },
    Route {
        takes: Takes::Many("TargetToReplay"),
        answers: RouteAnswers::Many("Replayed"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/replay",
            "replayMany",
            "Replays dead letters that are named in the body",
        )
    },
    Route {
        takes: Takes::Many("TargetToBury"),
        answers: RouteAnswers::Many("Buried"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/bury",
            "buryMany",
            "Makes pending messages dead letters that are named in the body",
        )
    },
    Route {
        takes: Takes::Many("TargetToGet"),
        answers: RouteAnswers::Many("Stored"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Read),
        ..Route::new(Method::Post, "/v1/get", "getMany", "Shows messages that are named in the body")
    },
    Route {
        query: &["state", "group", "from", "to", "order", "header", "reason", "limit", "after", "payload"],
        answers: RouteAnswers::Json("Page", &[200]),
        refuses: &[422],
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/messages",
            "listMessages",
            "Lists the messages of a topic in one state, by time",
        )
    },
    Route {
        query: &["topic", "header", "reason", "limit", "after", "payload"],
        answers: RouteAnswers::Json("Page", &[200]),
        refuses: &[422],
        ..Route::new(
            Method::Get,
            "/v1/groups/{group}/messages",
            "listGroup",
            "Lists the pending messages of a group, by due time",
        )
    },
    Route {
        query: &["topic"],
        answers: RouteAnswers::Json("GroupCancelled", &[200, 202]),
        refuses: &[422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/groups/{group}/cancel",
            "cancelGroup",
            "Cancels every pending message of a group, or those of one topic; 202: spooled",
        )
    },
    Route {
        query: &["topic"],
        takes: Takes::Json("Shift"),
        answers: RouteAnswers::Json("GroupShifted", &[200, 202]),
        refuses: &[408, 409, 413, 415, 422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/groups/{group}/shift",
            "shiftGroup",
            "Shifts the due times of a group's pending messages, each once under the same token; 202: spooled",
        )
    },
    Route {
        query: &["topic", "from", "to", "max"],
        answers: RouteAnswers::Json("Promoted", &[200]),
        refuses: &[422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/groups/{group}/promote",
            "promoteGroup",
            "Makes delayed messages of a group ready now, the earliest due first",
        )
    },
    Route {
        query: &["from", "to", "max"],
        answers: RouteAnswers::Json("Promoted", &[200]),
        refuses: &[422],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/promote",
            "promoteTopic",
            "Makes delayed messages of a topic ready now, in each shard the earliest due first",
        )
    },
    Route {
        takes: Takes::Json("BeginOperation"),
        answers: RouteAnswers::Json("OperationBegun", &[200, 202]),
        refuses: &[408, 413, 415, 422, 429],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Post,
            "/v1/operations",
            "beginOperation",
            "Acts on all messages that match a filter, in the background; 200: a dry run, which counts them",
        )
    },
    Route {
        answers: RouteAnswers::Json("Operations", &[200]),
        ..Route::new(
            Method::Get,
            "/v1/operations",
            "listOperations",
            "Lists the operations of the last seven days, the latest first",
        )
    },
    Route {
        answers: RouteAnswers::Json("Operation", &[200]),
        refuses: &[404],
        ..Route::new(
            Method::Get,
            "/v1/operations/{operation}",
            "getOperation",
            "Shows an operation's progress and outcomes",
        )
    },
    Route {
        answers: RouteAnswers::Json("Operation", &[200, 202]),
        refuses: &[404],
        needs: Some(Right::Act),
        ..Route::new(
            Method::Delete,
            "/v1/operations/{operation}",
            "abortOperation",
            "Aborts an operation after its current call; 200: it had ended",
        )
    },
    Route {
        query: &["limit", "after"],
        answers: RouteAnswers::Json("Topics", &[200]),
        refuses: &[422],
        ..Route::new(Method::Get, "/v1/topics", "listTopics", "Lists the topics with their counts")
    },
    Route {
        answers: RouteAnswers::Json("Topic", &[200]),
        refuses: &[422],
        ..Route::new(Method::Get, "/v1/topics/{topic}", "getTopic", "Shows a topic's counts, rate and policy")
    },
    Route {
        refuses: &[404, 409, 422],
        ..Route::new(Method::Delete, "/v1/topics/{topic}", "deleteTopic", "Deletes a topic without messages")
    },
    Route {
        query: &["group", "from", "to", "width"],
        answers: RouteAnswers::Json("Histogram", &[200]),
        refuses: &[422],
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/histogram",
            "getHistogram",
            "Counts a topic's pending messages by the interval in which they become due",
        )
    },
    Route {
        query: &["group", "from", "to"],
        answers: RouteAnswers::Json("Horizon", &[200]),
        refuses: &[422],
        ..Route::new(
            Method::Get,
            "/v1/topics/{topic}/horizon",
            "getHorizon",
            "Counts a topic's delayed messages from overdue to years ahead, or in up to 62 equal intervals of a range",
        )
    },
    Route {
        query: &["group"],
        refuses: &[422],
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/pause",
            "pauseTopic",
            "Stops a topic, or one group of it, from being reserved",
        )
    },
    Route {
        query: &["group"],
        refuses: &[422],
        ..Route::new(
            Method::Post,
            "/v1/topics/{topic}/resume",
            "resumeTopic",
            "Resumes a paused topic, or one paused group of it",
        )
    },
    Route {
        takes: Takes::Json("Rate"),
        refuses: &[408, 413, 415, 422],
        ..Route::new(
            Method::Put,
            "/v1/topics/{topic}/rate",
            "setRate",
            "Limits how many messages of a topic are reserved a second",
        )
    },
    Route {
        asks: &["if-none-match"],
        answers: RouteAnswers::Json("Policy", &[200]),
        refuses: &[422],
        ..Route::new(Method::Get, "/v1/topics/{topic}/policy", "getPolicy", "Shows a topic's policy in force")
    },
    Route {
        asks: &["if-match"],
        takes: Takes::Json("Policy"),
        answers: RouteAnswers::Json("Policy", &[200]),
        refuses: &[408, 412, 413, 415, 422],
        ..Route::new(
            Method::Put,
            "/v1/topics/{topic}/policy",
            "setPolicy",
            "Sets a topic's policy; settings that are left out return to their defaults",
        )
    },
    Route {
        asks: &["if-match"],
        takes: Takes::Json("Policy"),
        answers: RouteAnswers::Json("Policy", &[200]),
        refuses: &[408, 412, 413, 415, 422],
        ..Route::new(
            Method::Patch,
            "/v1/topics/{topic}/policy",
            "changePolicy",
            "Changes settings of a topic's policy; null returns one to its default",
        )
    },
    Route {
        takes: Takes::Json("Reserve"),
        answers: RouteAnswers::JsonOrEvents("Reserved", "TakenEvent"),
        refuses: &[408, 413, 415, 422],
        has_deadline: false,
        needs: Some(Right::Consume),
        ..Route::new(
            Method::Post,
            "/v1/reserve",
            "reserve",
            "Leases ready messages; waits up to 60 s for the first",
        )
    },
    Route {
        answers: RouteAnswers::Frames("StreamAsk", "StreamTell"),
        refuses: &[426],
        has_deadline: false,
        needs: Some(Right::Consume),
        ..Route::new(
            Method::Get,
            "/v1/stream",
            "openStream",
            "Reserves and settles over a WebSocket: messages come as far as the client's credits reach",
        )
    },
    Route {
        takes: Takes::Many("Settle"),
        answers: RouteAnswers::Many("Settled"),
        refuses: &[408, 413, 415, 422],
        needs: Some(Right::Consume),
        ..Route::new(Method::Post, "/v1/settle", "settle", "Settles leased messages by their receipts")
    },
    Route {
        takes: Takes::MaybeJson("Settlement"),
        answers: RouteAnswers::Json("Settled", &[200]),
        refuses: &[408, 410, 413, 415, 422],
        needs: Some(Right::Consume),
        ..Route::new(
            Method::Put,
            "/v1/leases/{receipt}/{do}",
            "settleLease",
            "Settles one leased message; 410: its lease is lost",
        )
    },
    Route {
        answers: RouteAnswers::Json("Me", &[200]),
        needs: None,
        ..Route::new(
            Method::Get,
            "/v1/me",
            "getMe",
            "Shows who sends the request, and the rights of the token",
        )
    },
    Route {
        takes: Takes::Json("LogIn"),
        answers: RouteAnswers::Json("Me", &[200]),
        refuses: &[401, 408, 413, 415, 422],
        is_public: true,
        needs: None,
        ..Route::new(
            Method::Post,
            "/v1/session",
            "logIn",
            "Begins a session of the page: answers a cookie for a token, or for the code of a one-time link",
        )
    },
    Route {
        is_public: true,
        needs: None,
        ..Route::new(
            Method::Delete,
            "/v1/session",
            "logOut",
            "Ends the session in every browser that has its cookie, and removes the cookie",
        )
    },
    Route {
        query: &["person", "token_name"],
        answers: RouteAnswers::Nothing,
        refuses: &[422],
        is_whole: true,
        ..Route::new(
            Method::Delete,
            "/v1/sessions",
            "endSessions",
            "Ends the sessions of one person, or of one token, at every gateway; they may log in again",
        )
    },
    Route {
        answers: RouteAnswers::Json("Logins", &[200]),
        is_public: true,
        ..Route::new(Method::Get, "/v1/session", "listLogins", "Returns how people log in to the page")
    },
    Route {
        answers: RouteAnswers::Json("Login", &[200]),
        refuses: &[401, 409],
        is_public: true,
        needs: None,
        ..Route::new(
            Method::Post,
            "/v1/session/oidc",
            "beginLogin",
            "Begins a login through the identity provider: answers where the browser goes, and a cookie for the way back",
        )
    },
    Route {
        is_whole: true,
        answers: RouteAnswers::Json("Status", &[200]),
        ..Route::new(
            Method::Get,
            "/v1/status",
            "getStatus",
            "Judges the deployment: each check with its verdict, advice and runbook",
        )
    },
    Route {
        is_whole: true,
        answers: RouteAnswers::Json("Shards", &[200]),
        ..Route::new(Method::Get, "/v1/shards", "listShards", "Lists the shards that answer")
    },
    Route {
        is_whole: true,
        answers: RouteAnswers::Json("Timers", &[200]),
        ..Route::new(
            Method::Get,
            "/v1/timers",
            "listTimers",
            "Lists the timers by etcd, and the owners of the shards by Redis",
        )
    },
    Route {
        is_whole: true,
        answers: RouteAnswers::Json("Processes", &[200]),
        ..Route::new(
            Method::Get,
            "/v1/processes",
            "listProcesses",
            "Lists the processes with their lateness, the destinations with their circuits, and the sources of recorded writes",
        )
    },
    Route {
        query: &["limit", "after"],
        answers: RouteAnswers::Json("Actions", &[200]),
        refuses: &[422],
        needs: Some(Right::Audit),
        ..Route::new(
            Method::Get,
            "/v1/actions",
            "listActions",
            "Lists who did what, the newest first; a tenant sees its own actions",
        )
    },
    Route {
        answers: RouteAnswers::Json("Tenants", &[200]),
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(Method::Get, "/v1/tenants", "listTenants", "Lists the tenants with their quotas")
    },
    Route {
        takes: Takes::Json("Quotas"),
        answers: RouteAnswers::Json("Tenant", &[200]),
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(
            Method::Put,
            "/v1/tenants/{tenant}",
            "setTenant",
            "Sets the quotas of a tenant; without any, the tenant has none",
        )
    },
    Route {
        answers: RouteAnswers::Nothing,
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(
            Method::Delete,
            "/v1/tenants/{tenant}",
            "deleteTenant",
            "Removes the quotas and every token of a tenant; its topics stay",
        )
    },
    Route {
        answers: RouteAnswers::Json("Tokens", &[200]),
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(Method::Get, "/v1/tenants/{tenant}/tokens", "listTokens", "Lists the tokens of a tenant")
    },
    Route {
        takes: Takes::Json("NewToken"),
        answers: RouteAnswers::Json("MadeToken", &[201]),
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(
            Method::Post,
            "/v1/tenants/{tenant}/tokens",
            "addToken",
            "Makes a token for a tenant, and shows it once",
        )
    },
    Route {
        takes: Takes::MaybeJson("Rotation"),
        answers: RouteAnswers::Json("MadeToken", &[201]),
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(
            Method::Post,
            "/v1/tenants/{tenant}/tokens/{token}/rotate",
            "rotateToken",
            "Makes another token with the same rights; the old one ends after the overlap",
        )
    },
    Route {
        answers: RouteAnswers::Nothing,
        refuses: &[404, 408, 413, 415, 422],
        needs: Some(Right::Manage),
        is_whole: true,
        ..Route::new(
            Method::Delete,
            "/v1/tenants/{tenant}/tokens/{token}",
            "revokeToken",
            "Revokes a token everywhere within a second",
        )
    },
    Route {
        answers: RouteAnswers::Json("Document", &[200]),
        is_public: true,
        ..Route::new(Method::Get, "/v1/openapi.json", "getDocument", "Returns this document")
    },
];
