//! The parameters of a request: known names, at most once. `+` is a plus sign.

use crate::problem::{Kind, Problem};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// Would end a parameter, or be decoded.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%').add(b'&');

#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

// === impl Query ===

impl Query {
    /// Refuses a parameter that is not among `known`, is there twice, or is not UTF-8.
    pub(crate) fn of(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut all = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                return Err(Problem::unknown("parameter", &name, known));
            }
            if all.insert(name.clone(), value).is_some() {
                return Err(Problem::new(Kind::Malformed, format!("{name}: given twice")).at(&name));
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: &String| text.parse().map_err(|error| Problem::invalid(name, error));
        self.0.get(name).map(read).transpose()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Query {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(parameters: T) -> Self {
        Self(parameters.into_iter().collect())
    }
}

/// As in a URL.
impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let and = if at > 0 { "&" } else { "" };
            write!(f, "{and}{name}={}", utf8_percent_encode(value, ENCODED))?;
        }
        Ok(())
    }
}

fn decoded(text: &str) -> Result<String, Problem> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|error| Problem::new(Kind::Malformed, format!("the parameters: {error}")))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_known_there_once_and_taken_as_it_is_written() {
        let known = ["group", "from"];
        let query = Query::of(Some("group=a%2Fb%26&from=+1m"), &known).unwrap();
        assert_eq!((query.text("group"), query.text("from")), (Some("a/b&"), Some("+1m")));
        for (text, kind) in
            [("grupo=a", Kind::Unknown), ("group=a&group=b", Kind::Malformed), ("group=%ff", Kind::Malformed)]
        {
            assert_eq!(Query::of(Some(text), &known).unwrap_err().item()["code"], kind.code(), "{text}");
        }
        assert!(Query::of(None, &[]).unwrap().get::<u8>("limit").unwrap().is_none());
    }
}
