//! Log lines: human or JSON, filtered, on standard error.

use crate::codes::{LOG_FILTER, SYSTEM};
use crate::config::{LogConfig, LogEnvironment, LogFormat};
use crate::fault::Fault;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// The form of log lines, given terminal and environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Human { colour: bool },
}

/// Starts logging for this process; panics are logged too, with their location.
///
/// # Errors
/// [`LOG_FILTER`] if `RUST_LOG` is invalid; [`SYSTEM`] if logging was started before.
pub fn init(log: &LogConfig) -> Result<(), Fault> {
    let environment = LogEnvironment::of_process();
    let filter = filter(log, environment.filter.as_deref())?;
    let style = style(log.format, std::io::stderr().is_terminal(), environment.no_colour);
    start(style, filter)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
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

fn start(style: Style, filter: EnvFilter) -> Result<(), Fault> {
    subscriber(style, filter, std::io::stderr)
        .try_init()
        .map_err(|error| Fault::new(&SYSTEM, "cannot start logging").because(error))
}

fn subscriber<W>(style: Style, filter: EnvFilter, writer: W) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match style {
        Style::Json => Box::new(
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).finish(),
        ),
        Style::Human { colour } => Box::new(builder.with_ansi(colour).finish()),
    }
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
        let page = Page::default();
        let writer = page.clone();
        let subscriber = subscriber(style, EnvFilter::new("info"), move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(shard = 7, "pumped");
            tracing::debug!("unseen");
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
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
    }
}
