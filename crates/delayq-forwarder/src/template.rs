//! Templates: text with values of the message in braces, such as `orders.{header.region}`.

use crate::parcel::About;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Id,
    Topic,
    Group,
    /// `{due}`, milliseconds since the epoch
    Due,
    Attempt,
    Header(String),
}

/// Text in which variables stand for values; `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Variable(Variable),
}

// === impl Template ===

impl Template {
    /// The text, if without variables.
    #[must_use]
    pub fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The error is the variable without a value in the message.
    pub(crate) fn render(&self, about: &About, headers: &[(String, String)]) -> Result<String, Variable> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Variable(variable) => {
                    out.push_str(&variable.value(about, headers).ok_or_else(|| variable.clone())?);
                }
            }
        }
        Ok(out)
    }

    /// Fills in the topic, the only value known before there is a message.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Self {
        let mut parts: Vec<TemplatePart> = Vec::new();
        for part in &self.parts {
            let text = match part {
                TemplatePart::Variable(Variable::Topic) => topic,
                TemplatePart::Text(text) => text,
                TemplatePart::Variable(_) => {
                    parts.push(part.clone());
                    continue;
                }
            };
            match parts.last_mut() {
                Some(TemplatePart::Text(before)) => before.push_str(text),
                _ => parts.push(TemplatePart::Text(text.to_owned())),
            }
        }
        Self { text: self.text.clone(), parts }
    }

    /// Distinguishes destinations before there is a message: the text with variables in braces.
    #[must_use]
    pub fn outline(&self) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Variable(variable) => variable.to_string(),
        };
        self.parts.iter().map(part).collect()
    }
}

impl FromStr for Template {
    type Err = String;

    /// The error lists the variables.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let (mut plain, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
            } else if brace == "}" {
                return Err(format!(
                    "`{text}` closes a brace that is not open; write }}}} for a literal brace"
                ));
            } else {
                let Some((name, after)) = rest.split_once('}') else {
                    return Err(format!("`{text}` does not close a brace; write {{{{ for a literal brace"));
                };
                if !plain.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
                }
                parts.push(TemplatePart::Variable(Variable::new(name)?));
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

delayq_service::written!(Template, "text in quotes, with values of the message such as \"{topic}\"");

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

// === impl Variable ===

impl Variable {
    fn new(name: &str) -> Result<Self, String> {
        match (name, name.strip_prefix("header.")) {
            ("id", _) => Ok(Self::Id),
            ("topic", _) => Ok(Self::Topic),
            ("group", _) => Ok(Self::Group),
            ("due", _) => Ok(Self::Due),
            ("attempt", _) => Ok(Self::Attempt),
            (_, Some(header)) if !header.is_empty() => Ok(Self::Header(header.to_owned())),
            _ => Err(format!(
                "unknown placeholder {{{name}}}; known are {{id}}, {{topic}}, {{group}}, {{due}}, \
                 {{attempt}} and {{header.NAME}}"
            )),
        }
    }

    /// Header names are compared without case.
    fn value(&self, about: &About, headers: &[(String, String)]) -> Option<String> {
        match self {
            Self::Id => Some(about.id.clone()),
            Self::Topic => Some(about.topic.clone()),
            Self::Group => about.group.clone(),
            Self::Due => Some(about.due.to_string()),
            Self::Attempt => Some(about.attempt.to_string()),
            Self::Header(wanted) => {
                let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
                found.map(|(_, value)| value.clone())
            }
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id => f.write_str("{id}"),
            Self::Topic => f.write_str("{topic}"),
            Self::Group => f.write_str("{group}"),
            Self::Due => f.write_str("{due}"),
            Self::Attempt => f.write_str("{attempt}"),
            Self::Header(name) => write!(f, "{{header.{name}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    mod hostile;

    use super::*;
    use delayq::UnixMillis;
    use delayq::protocol::UnixMicros;

    #[test]
    fn values_stand_where_their_names_were() {
        let about = About {
            id: "17".to_owned(),
            topic: "orders".to_owned(),
            group: None,
            due: UnixMillis::new(0),
            ready: UnixMicros(0),
            attempt: 1,
            delivery: 1,
            identity: "orders/17".to_owned(),
        };
        let headers = [("Region".to_owned(), "eu".to_owned())];
        for (template, expected) in [
            ("", Ok("")),
            ("plain", Ok("plain")),
            ("{topic}.{header.region}/{id}", Ok("orders.eu/17")),
            ("{{{id}}}", Ok("{17}")),
            ("x{group}", Err("{group}")),
            ("{header.none}", Err("{header.none}")),
        ] {
            let rendered = template.parse::<Template>().unwrap().render(&about, &headers);
            let rendered = rendered.map_err(|variable| variable.to_string());
            assert_eq!(rendered.as_deref().map_err(String::as_str), expected, "{template}");
        }
    }

    #[test]
    fn a_topic_is_filled_in_before_there_is_a_message() {
        let template = "a.{topic}.b".parse::<Template>().unwrap();
        assert_eq!(template.fixed(), None);
        assert_eq!(template.of_topic("t").fixed(), Some("a.t.b"));
        assert_eq!("{topic}-{id}".parse::<Template>().unwrap().of_topic("t").outline(), "t-{id}");
    }

    #[test]
    fn a_template_that_means_nothing_is_refused() {
        for text in ["{", "}", "{id", "id}", "{Id}", "{header.}", "{}"] {
            assert!(text.parse::<Template>().is_err(), "{text}");
        }
    }
}
