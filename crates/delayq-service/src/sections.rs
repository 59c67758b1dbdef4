//! The configuration of a service as its sections: the struct, its faults, and what the life of a process needs of it.

/// Defines the configuration of a service: a struct of its own sections and of those that every service has (`admin`,
/// `log`, `shutdown`), each a type that is a [`Section`](crate::config::Section). A key that belongs to none is a fault. The
/// crate that uses it depends on `serde`.
#[macro_export]
macro_rules! sections {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($section:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $name {
            $($section: $kind,)*
            admin: $crate::config::AdminConfig,
            log: $crate::config::LogConfig,
            shutdown: $crate::config::ShutdownConfig,
        }

        impl $crate::config::Section for $name {
            fn validate(&self, at: &mut $crate::config::Faults) {
                $(at.section(stringify!($section), &self.$section);)*
                at.section("admin", &self.admin);
                at.section("log", &self.log);
                at.section("shutdown", &self.shutdown);
            }
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
