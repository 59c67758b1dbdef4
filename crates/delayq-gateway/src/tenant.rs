//! Tenants: each owns the topics and groups whose names in Redis begin with its own name and a slash, and sees them without.
//!
//! ```text
//!  acme: orders ─► stored ─► acme/orders in Redis ─► shown ─► orders
//! ```
//! No name of a tenant contains a slash, so no prefix begins with another. Own ids need none: ids belong to a topic.

use crate::problem::Problem;
use delayq::admin::Listed;
use delayq::protocol::Reservation;
use delayq::{Group, Members, Message, Target, Topic};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const MAX_BYTES: usize = 32;

/// Kept with the slash: `acme/`. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Tenant(Arc<str>);

/// The names as a caller sees them, and as Redis has them; the same for a caller who is limited to no tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    tenant: Option<Tenant>,
}

// === impl Tenant ===

impl Tenant {
    pub(crate) fn name(&self) -> &str {
        self.0.trim_end_matches('/')
    }

    fn prefix(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tenant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(format!("{text}/").into())),
            false => Err(format!("a tenant's name has 1 to {MAX_BYTES} ASCII letters, digits, _ and -")),
        }
    }
}

impl TryFrom<String> for Tenant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.name().to_owned()
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Names ===

impl Names {
    pub(crate) fn of(tenant: Option<Tenant>) -> Self {
        Self { tenant }
    }

    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// Refuses a name that is too long with the prefix, and a topic outside the rules: it belongs to no tenant.
    pub(crate) fn stored_topic(&self, topic: &Topic) -> Result<Topic, Problem> {
        let Some(tenant) = &self.tenant else { return Ok(topic.clone()) };
        if topic.is_odd() {
            return Err(Problem::invalid("topic", "a topic outside the rules belongs to no tenant"));
        }
        let stored = Topic::new(format!("{}{topic}", tenant.prefix()));
        stored.map_err(|_| tenant.too_long("topic", topic.as_str(), Topic::MAX_BYTES))
    }

    /// Refuses a name that is too long with the prefix.
    pub(crate) fn stored_group(&self, group: &Group) -> Result<Group, Problem> {
        let Some(tenant) = &self.tenant else { return Ok(group.clone()) };
        let stored = Group::new(format!("{}{group}", tenant.prefix()));
        stored.map_err(|_| tenant.too_long("group", group.as_str(), Group::MAX_BYTES))
    }

    pub(crate) fn stored_target(&self, target: &Target) -> Result<Target, Problem> {
        let group = target.group.as_ref().map(|group| self.stored_group(group)).transpose()?;
        Ok(Target { id: target.id.clone(), group })
    }

    pub(crate) fn stored_members(&self, members: &Members) -> Result<Members, Problem> {
        let topic = members.topic.as_ref().map(|topic| self.stored_topic(topic)).transpose()?;
        Ok(Members { group: self.stored_group(&members.group)?, topic })
    }

    pub(crate) fn stored_message(&self, mut message: Message) -> Result<Message, Problem> {
        if self.tenant.is_some() {
            message.topic = self.stored_topic(&message.topic)?;
            message.group = message.group.as_ref().map(|group| self.stored_group(group)).transpose()?;
        }
        Ok(message)
    }

    /// `None`: the topic is not the tenant's.
    pub(crate) fn shown_topic(&self, stored: &Topic) -> Option<Topic> {
        match &self.tenant {
            None => Some(stored.clone()),
            Some(tenant) => Topic::new(stored.as_str().strip_prefix(tenant.prefix())?).ok(),
        }
    }

    /// `None`: the group is not the tenant's.
    pub(crate) fn shown_group(&self, stored: &Group) -> Option<Group> {
        match &self.tenant {
            None => Some(stored.clone()),
            Some(tenant) => Group::new(stored.as_str().strip_prefix(tenant.prefix())?).ok(),
        }
    }

    /// `None`: the message is not the tenant's. A program with a login to Redis may have put a message of the tenant into the
    /// group of somebody else: the group is then left out.
    pub(crate) fn shown(&self, mut listed: Listed) -> Option<Listed> {
        listed.topic = self.shown_topic(&listed.topic)?;
        listed.group = listed.group.and_then(|group| self.shown_group(&group));
        if let Ok(envelope) = &mut listed.envelope {
            envelope.group = envelope.group.take().and_then(|group| self.shown_group(&group));
        }
        Some(listed)
    }

    /// The message is of a topic that the tenant named.
    pub(crate) fn show(&self, message: &mut Reservation) {
        if self.tenant.is_some() {
            message.topic = self.shown_topic(&message.topic).expect("the topic was named by the tenant");
            let group = message.envelope.group.take();
            message.envelope.group = group.and_then(|group| self.shown_group(&group));
        }
    }

    /// A sentence of Redis may quote a name.
    pub(crate) fn shown_text(&self, text: &str) -> String {
        self.tenant.as_ref().map_or_else(|| text.to_owned(), |tenant| text.replace(tenant.prefix(), ""))
    }
}

impl Tenant {
    fn too_long(&self, what: &str, name: &str, most: usize) -> Problem {
        let (bytes, most) = (name.len(), most - self.prefix().len());
        Problem::invalid(what, format_args!("it has {bytes} bytes; at most {most} are allowed for a tenant"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tenant: &str) -> Names {
        Names::of(Some(tenant.parse().unwrap()))
    }

    #[test]
    fn a_name_goes_in_with_the_prefix_and_comes_out_without() {
        let acme = names("acme");
        for text in ["orders", "a/b", "acme/orders", "globex/orders", ".", "..", "/", "../globex/orders"] {
            let (topic, group) = (Topic::new(text).unwrap(), Group::new(text).unwrap());
            let (in_topic, in_group) =
                (acme.stored_topic(&topic).unwrap(), acme.stored_group(&group).unwrap());
            assert_eq!((in_topic.as_str(), in_group.as_str()), (&*format!("acme/{text}"), in_topic.as_str()));
            assert_eq!(
                (acme.shown_topic(&in_topic), acme.shown_group(&in_group)),
                (Some(topic), Some(group))
            );
            assert_eq!(names("globex").shown_topic(&in_topic), None);
            assert_eq!(names("acm").shown_group(&in_group), None);
        }
        for foreign in ["acme", "acmes/orders", "orders", "/acme/orders", "acme/"] {
            assert_eq!(acme.shown_topic(&Topic::new(foreign).unwrap()), None, "{foreign}");
        }
        let odd: Topic = "~odd-acme%2forders%20".parse().unwrap();
        assert!(odd.is_odd());
        assert_eq!(acme.shown_topic(&odd), None);
        assert!(acme.stored_topic(&odd).is_err());
    }

    #[test]
    fn a_name_that_is_too_long_with_the_prefix_is_refused_without_it() {
        let acme = names("acme");
        for (bytes, fits) in [(123, true), (124, false), (128, false)] {
            let name = "n".repeat(bytes);
            let topic = acme.stored_topic(&Topic::new(&*name).unwrap());
            let group = acme.stored_group(&Group::new(&*name).unwrap());
            assert_eq!((topic.is_ok(), group.is_ok()), (fits, fits), "{bytes}");
            for problem in [topic.err(), group.err()].into_iter().flatten() {
                assert!(problem.detail().contains(&format!("it has {bytes} bytes; at most 123")));
                assert!(!problem.detail().contains("acme"), "{}", problem.detail());
            }
        }
    }

    #[test]
    fn no_name_of_a_tenant_begins_another() {
        for odd in ["", "a/b", "/", "a b", "ä", "a.b", "a:b", &"x".repeat(33)] {
            assert!(odd.parse::<Tenant>().is_err(), "{odd}");
        }
        assert_eq!("a-B_9".parse::<Tenant>().unwrap().to_string(), "a-B_9");
    }

    #[test]
    fn without_a_tenant_a_name_is_the_same_inside() {
        let names = Names::default();
        let odd: Topic = "~odd-a%20".parse().unwrap();
        assert_eq!(names.stored_topic(&odd).unwrap(), odd);
        assert_eq!(names.shown_topic(&odd), Some(odd));
        assert_eq!(names.shown_text("acme/orders"), "acme/orders");
    }
}
