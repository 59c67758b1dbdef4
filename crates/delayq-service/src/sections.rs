//! Configurations as lists of sections: the struct, its faults, and the sections that the life of a process needs.

/// Defines a configuration: a struct whose fields are the tables of the file by name, each a
/// [`Section`](crate::config::Section). An unknown table is a fault. `and` checks the sections against each other. The crate
/// that uses it depends on `serde`.
///
/// ```
/// use delayq_service::config::{RedisConfig, SpoolConfig};
///
/// delayq_service::configuration! {
///     /// Two sections of the file.
///     struct Config {
///         redis: RedisConfig,
///         spool: SpoolConfig,
///     } and |config, at| {
///         if config.redis.url.is_tls() && config.spool.folder().is_some() {
///             at.contradiction(&["redis.url", "spool.dir"], "expected one of the two");
///         }
///     }
/// }
/// ```
#[macro_export]
macro_rules! configuration {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $section:ident: $kind:ty),* $(,)?
        } $(and |$config:ident, $at:ident| $check:expr)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $section: $kind,)*
        }

        impl $crate::config::Section for $name {
            fn validate(&self, at: &mut $crate::config::Faults) {
                $(at.section(stringify!($section), &self.$section);)*
                $(
                    let ($config, $at) = (self, at);
                    $check
                )?
            }
        }
    };
}

/// Defines the configuration of a service: a [`configuration!`](crate::configuration) of its own sections plus `admin`,
/// `log` and `shutdown`, which every service has and which share the struct's visibility.
#[macro_export]
macro_rules! sections {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $section:ident: $kind:ty),* $(,)?
        } $(and |$config:ident, $at:ident| $check:expr)?
    ) => {
        $crate::configuration! {
            $(#[$meta])* $vis struct $name {
                $($(#[$field_meta])* $field_vis $section: $kind,)*
                /// `[admin]`
                $vis admin: $crate::config::AdminConfig,
                /// `[log]`
                $vis log: $crate::config::LogConfig,
                /// `[shutdown]`
                $vis shutdown: $crate::config::ShutdownConfig,
            } $(and |$config, $at| $check)?
        }

        impl $crate::ServiceConfig for $name {
            fn log(&self) -> &$crate::config::LogConfig {
                &self.log
            }

            fn admin(&self) -> &$crate::config::AdminConfig {
                &self.admin
            }

            fn shutdown(&self) -> &$crate::config::ShutdownConfig {
                &self.shutdown
            }
        }
    };
}
