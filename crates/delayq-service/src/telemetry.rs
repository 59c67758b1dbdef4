//! Log lines: human or JSON, filtered, on standard error.

use crate::codes::{LOG_FILTER, SYSTEM};
use crate::config::{LogConfig, LogEnvironment, LogFormat};
use crate::fault::Fault;
use crate::repeats::{Repeats, WINDOW};
use std::io::IsTerminal;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Human { colour: bool },
}

/// The logging of this process: changes the filter and reports suppressed lines.
pub struct Logging {
    refilter: Refilter,
    repeats: Repeats,
    /// True if `RUST_LOG` overrides the configuration.
    overridden: bool,
}

type Refilter = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

/// Starts logging for this process; also logs panics with their location.
///
/// # Errors
/// [`LOG_FILTER`] if `RUST_LOG` is invalid; [`SYSTEM`] if logging was started before.
pub fn init(log: &LogConfig) -> Result<Logging, Fault> {
    let environment = LogEnvironment::of_process();
    let filter = filter(log, environment.filter.as_deref())?;
    let style = style(log.format, std::io::stderr().is_terminal(), environment.no_colour);
    let repeats = Repeats::default();
    let (subscriber, refilter) = subscriber(style, filter, std::io::stderr, repeats.clone());
    subscriber.try_init().map_err(|error| Fault::new(&SYSTEM, "cannot start logging").because(error))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(Logging { refilter, repeats, overridden: environment.filter.is_some() })
}

// === impl Logging ===

impl Logging {
    /// Applies the filter of this configuration.
    pub fn follow(&self, log: &LogConfig) {
        if self.overridden {
            tracing::warn!("RUST_LOG is set and overrides `[log] filter`, which is not applied");
            return;
        }
        match filter(log, None) {
            Ok(filter) => {
                let changed = (self.refilter)(filter);
                tracing::info!(filter = log.filter, "log filter reloaded");
                changed.unwrap_or_else(|error| tracing::warn!(%error, "the log filter cannot be changed"));
            }
            Err(fault) => tracing::warn!("{fault}"),
        }
    }

    /// Logs the number of suppressed repeats every few seconds, for ever.
    pub async fn report_now_and_then(&self) {
        loop {
            tokio::time::sleep(WINDOW).await;
            self.report_repeats();
        }
    }

    /// Logs the number of suppressed repeats since the last report. Call before the process ends.
    pub fn report_repeats(&self) {
        self.repeats.report();
    }
}

fn filter(log: &LogConfig, overriding: Option<&str>) -> Result<EnvFilter, Fault> {
    let (name, text) = match overriding {
        Some(text) => ("RUST_LOG", text),
        None => ("log.filter", log.filter.as_str()),
    };
    EnvFilter::try_new(text)
        .map_err(|error| Fault::new(&LOG_FILTER, format!("{name} is `{text}`")).because(error))
}

fn style(format: LogFormat, terminal: bool, no_colour: bool) -> Style {
    match (format, terminal) {
        (LogFormat::Json, _) | (LogFormat::Auto, false) => Style::Json,
        (LogFormat::Human, _) | (LogFormat::Auto, true) => Style::Human { colour: terminal && !no_colour },
    }
}

fn subscriber<W>(
    style: Style,
    filter: EnvFilter,
    writer: W,
    repeats: Repeats,
) -> (Box<dyn tracing::Subscriber + Send + Sync>, Refilter)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match style {
        Style::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            (
                Box::new(builder.finish().with(repeats).with(filter_fn(holds_no_traffic))),
                Box::new(move |filter| handle.reload(filter)),
            )
        }
        Style::Human { colour } => {
            let builder = builder.with_ansi(colour).with_filter_reloading();
            let handle = builder.reload_handle();
            (
                Box::new(builder.finish().with(repeats).with(filter_fn(holds_no_traffic))),
                Box::new(move |filter| handle.reload(filter)),
            )
        }
    }
}

/// False for lines with traffic: client libraries trace the bytes they send, passwords and payloads included, and the
/// RabbitMQ client warns of each returned message with all its bytes. No filter ever shows these lines.
fn holds_no_traffic(of: &Metadata<'_>) -> bool {
    let own = of.target().starts_with("delayq");
    own || (*of.level() < Level::TRACE && of.target() != "lapin::returned_messages")
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("a panic without a message");
    let thread = std::thread::current();
    tracing::error!(location, thread = thread.name().unwrap_or("unnamed"), "panic: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(style: Style) -> String {
        written_while(style, |_, _| {
            tracing::info!(shard = 7, "pumped");
            tracing::debug!("unseen");
        })
    }

    fn written_while(style: Style, work: impl FnOnce(&Repeats, &Refilter)) -> String {
        let (page, repeats) = (Page::default(), Repeats::default());
        let writer = page.clone();
        let (subscriber, refilter) =
            subscriber(style, EnvFilter::new("info"), move || writer.clone(), repeats.clone());
        tracing::subscriber::with_default(subscriber, || work(&repeats, &refilter));
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_that_repeats_is_shown_twenty_times_and_then_counted() {
        let text = written_while(Style::Human { colour: false }, |repeats, refilter| {
            refilter(EnvFilter::new("debug")).unwrap();
            for n in 0..100 {
                tracing::warn!(n, "the same fault");
                tracing::debug!(n, "asked for");
            }
            tracing::warn!("another fault");
            repeats.report();
            repeats.report();
        });
        let count = |text_of: &str| text.lines().filter(|line| line.contains(text_of)).count();
        assert_eq!(
            (count("the same fault"), count("another fault"), count("asked for")),
            (20, 1, 100),
            "{text}"
        );
        assert_eq!((count("left_out=80"), count("suppressed repeats")), (1, 1), "{text}");
    }

    #[test]
    fn what_clients_send_is_not_shown_whatever_the_filter_says() {
        let text = written_while(Style::Json, |_, refilter| {
            refilter(EnvFilter::new("trace")).unwrap();
            tracing::trace!("our own");
            tracing::trace!(target: "lapin::io_loop", "StartOk hunter2");
            tracing::warn!(target: "lapin::returned_messages", "hunter2");
            tracing::debug!(target: "lapin::io_loop", "connected");
        });
        assert!(
            text.contains("our own") && text.contains("connected") && !text.contains("hunter2"),
            "{text}"
        );
    }

    #[test]
    fn another_filter_shows_other_lines_from_then_on() {
        let text = written_while(Style::Json, |_, refilter| {
            tracing::debug!("before");
            refilter(EnvFilter::new("debug")).unwrap();
            tracing::debug!("then");
            refilter(EnvFilter::new("error")).unwrap();
            tracing::warn!("after");
        });
        assert!(text.contains("then") && !text.contains("before") && !text.contains("after"), "{text}");
    }

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        for (format, terminal, no_colour, expected) in [
            (LogFormat::Auto, true, false, Style::Human { colour: true }),
            (LogFormat::Auto, true, true, Style::Human { colour: false }),
            (LogFormat::Auto, false, false, Style::Json),
            (LogFormat::Human, false, false, Style::Human { colour: false }),
            (LogFormat::Json, true, false, Style::Json),
        ] {
            assert_eq!(style(format, terminal, no_colour), expected);
        }
    }

    #[test]
    fn a_json_line_is_one_object_with_the_fields_at_its_top() {
        let line = written(Style::Json);
        let object: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
        assert_eq!(
            (&object["shard"], &object["message"], &object["level"]),
            (&7.into(), &"pumped".into(), &"INFO".into())
        );
    }

    #[test]
    fn a_human_line_without_colour_has_no_escapes() {
        let line = written(Style::Human { colour: false });
        assert!(line.contains("pumped shard=7") && !line.contains('\u{1b}'), "{line}");
        assert!(written(Style::Human { colour: true }).contains('\u{1b}'));
    }

    #[test]
    fn the_environment_overrides_the_filter_and_is_named_when_it_is_wrong() {
        let log = LogConfig::default();
        assert_eq!(filter(&log, Some("debug")).unwrap().to_string(), "debug");
        assert_eq!(filter(&log, None).unwrap().to_string(), "info");
        let fault = filter(&log, Some("info=[")).unwrap_err();
        assert!(fault.to_string().starts_with("DQ-C003: RUST_LOG is `info=[`"), "{fault}");
        let fault = filter(&log, Some("delayq=nonsense")).unwrap_err().to_string();
        assert_eq!(fault.matches("expected one of").count(), 1, "{fault}");
    }
}
