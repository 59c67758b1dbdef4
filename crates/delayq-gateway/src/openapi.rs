//! The OpenAPI document: made of the table of routes and of `schemas.json`, and committed as `openapi.json`.

use crate::input::EVENTS;
use crate::problem::Kind;
use crate::table::{DEADLINE, MESSAGE_HEADER, Method, ROUTES, Route, RouteAnswers, Takes};
use delayq::admin::{Form, PolicySetting};
use delayq_service::headers::STRUCTURED_EVENT;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The committed document, which `GET /v1/openapi.json` returns.
pub const DOCUMENT: &str = include_str!("../openapi.json");

const SCHEMAS: &str = include_str!("openapi/schemas.json");
const MEANINGS: &str = include_str!("openapi/meanings.json");

const EVERYWHERE: [u16; 7] = [400, 401, 403, 421, 429, 500, 503];

const DESCRIPTION: &str = "A delay queue over HTTP. Refusals are problem+json with a stable `code`; after a failure, `fate` says \
                           whether the call was applied. Own ids are recognised until `remember_own` (60 s) after the \
                           message has finished. Unknown parameters, keys and Delayq headers are refused.";

const FRAMES: &str = "Each frame is text: an object of JSON with one key, as `x-frames` says. The subprotocol is `delayq.v1`, and may \
                      be left out.";

/// The document that the code describes; a test compares the two.
#[must_use]
pub fn generated() -> String {
    let meanings: Map<String, Value> = serde_json::from_str(MEANINGS).expect("the meanings are JSON");
    let mut schemas: Value = serde_json::from_str(SCHEMAS).expect("the schemas are JSON");
    schemas["Policy"] = policy();
    let mut paths = Map::new();
    for route in ROUTES.iter() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[verb(route.method)] = operation(route, &meanings, &schemas);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": { "title": "delayq gateway", "version": "1", "description": DESCRIPTION, "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" } },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    serde_json::to_string_pretty(&document).expect("it is made of plain values") + "\n"
}

fn policy() -> Value {
    let one = |setting: PolicySetting| {
        let entry = setting.entry();
        let mut of = match entry.form {
            Form::Count { most } => json!({
                "type": ["string", "integer", "null"], "format": "delayq-count", "pattern": "^[0-9]{1,10}$",
                "minimum": 0, "maximum": most,
            }),
            Form::Word(words) => {
                json!({ "type": ["string", "null"], "pattern": format!("^({})$", words.join("|")) })
            }
            Form::Backoff => json!({ "type": ["string", "null"], "format": "delayq-backoff" }),
            Form::Span { .. } => json!({ "type": ["string", "null"], "format": "delayq-duration" }),
            Form::Flag | Form::Rate { .. } => unreachable!("no setting of a policy is one"),
        };
        of["description"] = entry.doc().into();
        (setting.name().replace('-', "_"), of)
    };
    let settings: Map<String, Value> = PolicySetting::ALL.into_iter().map(one).collect();
    json!({ "type": "object", "properties": settings, "additionalProperties": false })
}

const fn verb(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Put => "put",
        Method::Post => "post",
        Method::Patch => "patch",
        Method::Delete => "delete",
    }
}

fn operation(route: &Route, meanings: &Map<String, Value>, schemas: &Value) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters(route, meanings),
        "responses": responses(route),
    });
    if route.is_whole {
        operation["description"] =
            "Not for tokens of a tenant: the answer is about the whole deployment.".into();
    }
    if let RouteAnswers::Frames(asks, tells) = route.answers {
        operation["description"] = FRAMES.into();
        operation["x-frames"] = json!({ "client": schema(asks), "gateway": schema(tells) });
    }
    if let Some(body) = body(route.takes) {
        operation["requestBody"] = body;
    }
    if let Takes::Names(original) = route.takes {
        let schema = by_body(original, meanings, schemas);
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    match route.needs {
        _ if route.is_public => operation["security"] = json!([]),
        Some(right) => operation["security"] = json!([{ "token": [right.word()] }]),
        None => {}
    }
    operation
}

fn parameters(route: &Route, meanings: &Map<String, Value>) -> Value {
    let parameter = |place: &str, name: &str| {
        let mut parameter = json!({ "name": name, "in": place, "required": place == "path" });
        for (key, value) in meaning(route, name, meanings).as_object().expect("a meaning is an object") {
            parameter[key] = value.clone();
        }
        parameter
    };
    let of_path = route.names().map(|name| parameter("path", name));
    let of_query = route.query.iter().map(|name| parameter("query", name));
    let asks = route.headers().into_iter().filter(|name| !name.starts_with(MESSAGE_HEADER));
    of_path.chain(of_query).chain(asks.map(|name| parameter("header", name))).collect()
}

fn meaning<'a>(route: &Route, name: &str, meanings: &'a Map<String, Value>) -> &'a Value {
    let own = meanings.get(&format!("{} {name}", route.original().name));
    own.or_else(|| meanings.get(name)).unwrap_or_else(|| panic!("meanings.json lacks {name}"))
}

/// The schema of a body with the names and the parameters of a route.
fn by_body(original: &Route, meanings: &Map<String, Value>, schemas: &Value) -> Value {
    let mut schema = match original.takes {
        Takes::Json(name) | Takes::MaybeJson(name) => schemas[name].clone(),
        _ => json!({ "type": "object", "additionalProperties": false }),
    };
    for name in original.names().chain(original.query.iter().copied()) {
        let meaning = meaning(original, name, meanings);
        let mut property = meaning["schema"].clone();
        property["description"] = meaning["description"].clone();
        if property["format"] == "delayq-moment" {
            property["type"] = json!(["string", "integer"]);
        }
        schema["properties"][name] = property;
    }
    let required = schema["required"].as_array().into_iter().flatten().cloned();
    schema["required"] = original.names().map(Value::from).chain(required).collect();
    schema
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn body(takes: Takes) -> Option<Value> {
    let of =
        |kind: &str, schema: Value| json!({ "required": true, "content": { kind: { "schema": schema } } });
    Some(match takes {
        Takes::Nothing | Takes::Names(_) => return None,
        Takes::Json(name) => of("application/json", schema(name)),
        Takes::MaybeJson(name) => {
            json!({ "required": false, "content": { "application/json": { "schema": schema(name) } } })
        }
        Takes::Message => json!({
            "required": true,
            "description": "A message in JSON, or an event of CloudEvents 1.0; of any other type, the body is the payload and \
                            Delayq headers describe the message: Delayq-Header-NAME is a header of the message. With \
                            ce-specversion, the body is the data of the event that the ce headers describe.",
            "content": {
                "application/json": { "schema": schema("Message") },
                STRUCTURED_EVENT: { "schema": schema("Event") },
                "*/*": { "schema": {} },
            },
        }),
        Takes::LinesOrEvents(name) => json!({
            "required": true,
            "description": "With ce-specversion, a body of any type is the data of the event that the ce headers describe.",
            "content": {
                "application/x-ndjson": { "schema": schema(name) },
                EVENTS: { "schema": { "type": "array", "maxItems": 500, "items": schema("Event") } },
                STRUCTURED_EVENT: { "schema": schema("Event") },
            },
        }),
        Takes::Many(name) => json!({
            "required": true,
            "content": {
                "application/json": { "schema": { "type": "array", "maxItems": 500, "items": schema(name) } },
                "application/x-ndjson": { "schema": schema(name) },
            },
        }),
    })
}

fn responses(route: &Route) -> Value {
    let content = |kind: &str, schema: Value| json!({ kind: { "schema": schema } });
    let done = |content: Value| json!({ "description": "done", "content": content });
    let mut responses = json!({});
    match route.answers {
        RouteAnswers::Nothing => responses["204"] = json!({ "description": "done" }),
        RouteAnswers::Json(name, statuses) => {
            for status in statuses {
                responses[status.to_string()] = done(content("application/json", schema(name)));
            }
        }
        RouteAnswers::JsonOrEvents(name, event) => {
            let array = json!({ "type": "array", "items": schema(event) });
            responses["200"] = done(json!({
                "application/json": { "schema": schema(name) }, EVENTS: { "schema": array },
            }));
        }
        RouteAnswers::LinesOr(lines, one, statuses) => {
            for status in statuses {
                responses[status.to_string()] = done(content("application/json", schema(one)));
            }
            responses["200"]["content"]["application/x-ndjson"] = json!({ "schema": schema(lines) });
        }
        RouteAnswers::Many(name) => {
            let item = json!({ "oneOf": [schema(name), schema("Failed")] });
            let array = json!({ "type": "array", "items": item });
            responses["200"] = done(json!({
                "application/json": { "schema": array }, "application/x-ndjson": { "schema": item },
            }));
        }
        RouteAnswers::Frames(..) => {
            responses["101"] = json!({ "description": "the connection speaks WebSocket (RFC 6455)" });
        }
        RouteAnswers::Bytes => responses["200"] = done(content("*/*", json!({}))),
    }
    if route.method == Method::Get && route.asks.contains(&"if-none-match") {
        responses["304"] = json!({ "description": "the message is as the tag says" });
    }
    if let Some((of, links)) = links(route.name) {
        of.iter().for_each(|status| responses[status.to_string()]["links"] = links.clone());
    }
    for status in refusals(route) {
        let problem = content("application/problem+json", schema("Problem"));
        responses[status.to_string()] = json!({ "description": described(status), "content": problem });
    }
    responses
}

/// Requests that may follow an answer of a route, by what the answer names; and the statuses of such answers.
fn links(route: &str) -> Option<(&'static [u16], Value)> {
    let message = |id: &str| {
        let link = |operation: &str| json!({ "operationId": operation, "parameters": { "topic": "$request.path.topic", "id": id } });
        json!({
            "get": link("getMessage"), "history": link("getHistory"), "payload": link("getPayload"), "cancel": link("cancelMessage"),
            "reserve": { "operationId": "reserve", "requestBody": { "topics": ["{$request.path.topic}"] } },
        })
    };
    let settle = |action: &str| {
        let receipt = "$response.body#/messages/0/receipt";
        json!({ "operationId": "settleLease", "parameters": { "receipt": receipt, "do": action } })
    };
    let operation =
        |of: &str| json!({ "operationId": of, "parameters": { "operation": "$response.body#/id" } });
    let token = |of: &str| json!({ "operationId": of, "parameters": { "tenant": "$request.path.tenant", "token": "$response.body#/id" } });
    Some(match route {
        "putMessage" => (&[201, 200], message("$request.path.id")),
        "postMessage" => (&[201, 200], message("$response.body#/id")),
        "reserve" => (
            &[200],
            json!({ "ack": settle("ack"), "release": settle("release"), "bury": settle("bury"), "extend": settle("extend") }),
        ),
        "beginOperation" => {
            (&[202], json!({ "get": operation("getOperation"), "abort": operation("abortOperation") }))
        }
        "addToken" | "rotateToken" => {
            (&[201], json!({ "rotate": token("rotateToken"), "revoke": token("revokeToken") }))
        }
        _ => return None,
    })
}

fn refusals(route: &Route) -> BTreeSet<u16> {
    let deadline = route.takes_header(DEADLINE).then_some([422, 504]);
    let all =
        EVERYWHERE.into_iter().chain(route.refuses.iter().copied()).chain(deadline.into_iter().flatten());
    all.filter(|status| *status != 401 || !route.is_public || route.refuses.contains(status)).collect()
}

fn described(status: u16) -> String {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.status().as_u16() == status);
    kinds.map(|kind| format!("{}: {}", kind.code(), kind.title())).collect::<Vec<_>>().join("; ")
}
