//! An otherwise idle service that dies as configured.
//!
//! `living [FILE]` takes a file with the shared sections and `[living]`. The example shows the shape of every service,
//! and the tests of this crate run it to see real signals and exit codes.

use delayq_service::codes::ADMIN_BIND;
use delayq_service::config::Section;
use delayq_service::{Fault, Process, Program, Service, Tasks};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

delayq_service::sections! {
    struct Config {
        living: LivingConfig,
    }
}

/// `[living]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LivingConfig {
    manner: Manner,
}

/// Manner of the service's death.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Manner {
    #[default]
    Obedient,
    /// Ignores shutdown.
    Stuck,
    /// A task returns unasked.
    Returns,
    /// A task fails unasked.
    Fails,
    /// A task panics unasked.
    Panics,
    /// A task fails while it drains.
    FailsLast,
    BuildFails,
    /// The build never returns.
    BuildWaits,
    /// Building it panics.
    BuildPanics,
    /// Threads create and drop Kafka clients with TLS, and are never joined.
    #[cfg(feature = "kafka")]
    SpeaksTls,
}

impl Section for LivingConfig {}

struct Living {
    manner: Manner,
}

impl Service for Living {
    type Config = Config;

    const PROGRAM: Program = Program { name: "living", version: env!("CARGO_PKG_VERSION") };

    async fn build(config: Config, _process: &Process) -> Result<Self, Fault> {
        match config.living.manner {
            Manner::BuildFails => Err(Fault::new(&ADMIN_BIND, "nothing here can be built")),
            Manner::BuildPanics => panic!("no such thing can be built"),
            Manner::BuildWaits => {
                tracing::info!("building");
                std::future::pending().await
            }
            manner => Ok(Self { manner }),
        }
    }

    fn run(self, tasks: &Tasks) {
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("breath", async move {
            shutdown.requested().await;
            tracing::info!("gave back what it held");
            Ok(())
        });
        let (manner, shutdown) = (self.manner, tasks.shutdown().clone());
        tasks.spawn("heart", async move {
            match manner {
                Manner::Stuck => std::future::pending().await,
                Manner::Returns => return Ok(()),
                Manner::Fails => return Err(Fault::new(&ADMIN_BIND, "the heart is weak")),
                Manner::Panics => panic!("the heart is broken"),
                #[cfg(feature = "kafka")]
                Manner::SpeaksTls => {
                    speak_tls();
                    shutdown.requested().await;
                }
                _ => shutdown.requested().await,
            }
            match manner {
                Manner::FailsLast => Err(Fault::new(&ADMIN_BIND, "nothing could be given back")),
                _ => Ok(()),
            }
        });
    }
}

#[cfg(feature = "kafka")]
fn speak_tls() {
    use rdkafka::ClientConfig;
    use rdkafka::consumer::BaseConsumer;
    use std::sync::{Arc, Barrier};
    const THREADS: usize = 16;
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", "127.0.0.1:1").set("security.protocol", "ssl");
    let made = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let (settings, made) = (settings.clone(), Arc::clone(&made));
        std::thread::spawn(move || {
            drop(settings.create::<BaseConsumer>());
            made.wait();
            loop {
                drop(settings.create::<BaseConsumer>());
            }
        });
    }
    made.wait();
    tracing::info!("speaks TLS");
}

fn main() -> ExitCode {
    delayq_service::main_of_arguments::<Living>()
}
