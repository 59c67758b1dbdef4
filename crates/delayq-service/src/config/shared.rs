//! Keys that several sections have in one table, each beside keys of its own: the PEM files of TLS, a login, the access to a
//! broker.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// The keys of a struct of [`section!`](crate::section), by name.
///
/// # Contract
/// [`names`](Self::names) has each name once, and [`read`](Self::read) reads the value of each of them.
pub trait SectionKeys: Default {
    /// The names, including those of shared keys.
    fn names() -> Vec<&'static str>;

    /// Reads the value of a name.
    ///
    /// # Errors
    /// The value has another type.
    fn read<'de, M: MapAccess<'de>>(&mut self, name: &str, table: &mut M) -> Result<(), M::Error>;
}

/// Reads a table whose keys are those of a struct. Each fault has the line of its key.
///
/// # Errors
/// A key is unknown, or a value has another type.
pub fn read_section<'de, S: SectionKeys, D: Deserializer<'de>>(table: D) -> Result<S, D::Error> {
    table.deserialize_map(SectionVisitor(PhantomData))
}

struct SectionVisitor<S>(PhantomData<S>);

impl<'de, S: SectionKeys> Visitor<'de> for SectionVisitor<S> {
    type Value = S;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a section")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut table: M) -> Result<S, M::Error> {
        let (mut section, names) = (S::default(), S::names());
        while let Some(name) = table.next_key_seed(Known(&names))? {
            section.read(name, &mut table)?;
        }
        Ok(section)
    }
}

/// Reads a key that is one of these names.
#[derive(Clone, Copy)]
struct Known<'a>(&'a [&'static str]);

impl<'de> DeserializeSeed<'de> for Known<'_> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<&'static str, D::Error> {
        key.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Known<'_> {
    type Value = &'static str;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<&'static str, E> {
        self.0.iter().copied().find(|name| *name == key).ok_or_else(|| {
            E::custom(format!("unknown field `{key}`, expected one of `{}`", self.0.join("`, `")))
        })
    }
}

/// Defines a section by its keys, each with its default. `..FIELD: TYPE` adds the keys of another such struct to the same table.
/// The crate that uses it depends on `serde`.
///
/// ```
/// use delayq_service::config::{Environment, Faults, Login, PemFiles, Section, Source, load};
///
/// delayq_service::section! {
///     /// `[mail]`: a server.
///     pub struct MailConfig {
///         ..files: PemFiles,
///         ..login: Login,
///         /// The host; default `localhost`.
///         pub host: String = "localhost".to_owned(),
///     }
/// }
///
/// impl Section for MailConfig {
///     fn validate(&self, at: &mut Faults) {
///         self.login.validate(at);
///     }
/// }
///
/// delayq_service::configuration! {
///     struct Config { mail: MailConfig }
/// }
///
/// let read = |text: &str| load::<Config>(&Source::text("delayq.toml", text), &Environment::empty());
/// let mail = read("[mail]\nusername = 'u'\npassword = 'p'").unwrap().config.mail;
/// assert_eq!((mail.host.as_str(), mail.login.username.as_deref()), ("localhost", Some("u")));
/// let faults = read("[mail]\nhots = 'a'\nca = 5").unwrap_err();
/// assert_eq!(faults.faults().iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), ["mail.hots", "mail.ca"]);
/// ```
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident {
            $(..$shared:ident: $keys:ty,)*
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $kind:ty = $default:expr),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        $vis struct $name {
            $(
                #[doc = concat!("The keys of [`", stringify!($keys), "`].")]
                #[serde(flatten)]
                pub $shared: $keys,
            )*
            $($(#[$field_meta])* $field_vis $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($shared: <$keys>::default(),)* $($field: $default,)* }
            }
        }

        impl $crate::config::SectionKeys for $name {
            fn names() -> Vec<&'static str> {
                let shared: &[Vec<&'static str>] = &[$(<$keys as $crate::config::SectionKeys>::names()),*];
                [vec![$(stringify!($field)),*], shared.concat()].concat()
            }

            fn read<'de, M: ::serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                table: &mut M,
            ) -> Result<(), M::Error> {
                $(if <$keys as $crate::config::SectionKeys>::names().contains(&name) {
                    return $crate::config::SectionKeys::read(&mut self.$shared, name, table);
                })*
                match name {
                    $(stringify!($field) => self.$field = table.next_value()?,)*
                    _ => unreachable!("only names of the section are read"),
                }
                Ok(())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(table: D) -> Result<Self, D::Error> {
                $crate::config::read_section(table)
            }
        }
    };
}
