//! A body with the names and the parameters of a route. What remains of it is the body that the route reads.

use super::body::{MAX_BODY, Whole};
use super::form::{Form, JSON, other_type};
use super::query::Query;
use crate::problem::Problem;
use crate::state::Scope;
use crate::table::{Route, Takes};
use axum::body::Body;
use axum::http::HeaderMap;
use serde_json::{Map, Value};

/// Names and parameters of a body, exactly as they are written there.
#[derive(Clone, Debug)]
pub(crate) struct GivenNames {
    pub(crate) names: Vec<(String, String)>,
    pub(crate) query: Query,
}

// === impl GivenNames ===

impl GivenNames {
    pub(crate) async fn read(
        original: &Route,
        body: Body,
        headers: &HeaderMap,
        scope: &Scope,
    ) -> Result<(Self, Body), Problem> {
        let whole = Whole::read(body, headers, scope, MAX_BODY).await?;
        if Form::of(headers) != Form::Json {
            return Err(other_type(JSON));
        }
        let (given, rest) = Self::split(original, whole.json()?)?;
        let has_rest = !matches!(original.takes, Takes::Nothing);
        Ok((given, if has_rest { Value::Object(rest).to_string().into() } else { Body::empty() }))
    }

    /// Returns the keys of the route's body, too.
    fn split(original: &Route, mut keys: Map<String, Value>) -> Result<(Self, Map<String, Value>), Problem> {
        let mut taken = |name: &'static str| {
            let text = keys.remove(name).map(|value| text(name, &value)).transpose();
            text.map(|text| text.map(|text| (name.to_owned(), text)))
        };
        let names = original.names().map(|name| {
            taken(name)?
                .ok_or_else(|| Problem::invalid(name, "missing: the body has the names of this route"))
        });
        let names = names.collect::<Result<_, _>>()?;
        let query =
            original.query.iter().filter_map(|name| taken(name).transpose()).collect::<Result<_, _>>()?;
        match keys.keys().next() {
            Some(unknown) if matches!(original.takes, Takes::Nothing) => {
                let known: Vec<&str> = original.names().chain(original.query.iter().copied()).collect();
                let why = format_args!("unknown field `{unknown}`, expected one of {}", known.join(", "));
                Err(Problem::invalid(unknown, why))
            }
            _ => Ok((Self { names, query }, keys)),
        }
    }
}

/// The text that the parameter has in a URL.
fn text(name: &str, value: &Value) -> Result<String, Problem> {
    match (name, value) {
        ("limit" | "max" | "from" | "to", Value::Number(number)) => Ok(number.to_string()),
        ("past_ok", Value::Bool(flag)) => Ok(flag.to_string()),
        ("limit" | "max", _) => Err(Problem::invalid(name, "must be a number")),
        ("past_ok", _) => Err(Problem::invalid(name, "must be true or false")),
        (_, Value::String(text)) => Ok(text.clone()),
        _ => Err(Problem::invalid(name, "must be a string")),
    }
}
