//! A body of many items: an array, or lines. A faulty item does not stop the rest.

use super::body::{Whole, faulty, parsed};
use super::form::Form;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

const MAX_ITEMS: usize = 500;

#[derive(Debug)]
pub(crate) struct Items {
    form: Form,
    texts: Vec<String>,
    _body: Whole,
}

// === impl Items ===

impl Items {
    /// Fails without an array, or with too many items.
    pub(super) fn read(form: Form, body: Whole) -> Result<Self, Problem> {
        let texts: Vec<String> = match form {
            Form::Ndjson => {
                let text = std::str::from_utf8(&body.bytes);
                let text = text.map_err(|_| Problem::new(Kind::Malformed, "the body is not UTF-8"))?;
                text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
            }
            _ => {
                let items: Vec<&RawValue> =
                    serde_json::from_slice(&body.bytes).map_err(|error| faulty(&error))?;
                items.into_iter().map(|item| item.get().to_owned()).collect()
            }
        };
        match texts.len() {
            0..=MAX_ITEMS => Ok(Self { form, texts, _body: body }),
            count => {
                Err(Problem::new(Kind::TooLarge, format!("{count} items; at most {MAX_ITEMS} are allowed")))
            }
        }
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Vec<Result<T, Problem>> {
        self.texts.iter().map(|text| parsed(text.as_bytes())).collect()
    }

    /// One answer for each item, in the form of the request; and how many are done.
    pub(crate) fn answer(&self, answers: impl Iterator<Item = Result<Value, Problem>>) -> (Response, u64) {
        let mut done = 0;
        let answers = answers.map(|answer| {
            done += u64::from(answer.is_ok());
            answer.unwrap_or_else(|problem| problem.item())
        });
        let (text, kind) = match self.form {
            Form::Ndjson => (answers.map(|answer| format!("{answer}\n")).collect(), "application/x-ndjson"),
            _ => (Value::Array(answers.collect()).to_string(), "application/json"),
        };
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        (response, done)
    }
}
