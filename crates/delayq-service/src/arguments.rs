//! The command line of a service: the configuration's source, or a question about the program.

use crate::config::Source;
use crate::program::Program;
use std::ffi::OsString;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Run(Source),
    Healthcheck(Source),
    Print(String),
    Unknown(String),
}

// === impl Invocation ===

impl Invocation {
    /// `[--healthcheck] [[--config] FILE]`, `--help` or `--version`, after the program's name.
    pub(crate) fn of(program: Program, arguments: impl IntoIterator<Item = OsString>) -> Self {
        let mut arguments = arguments.into_iter().peekable();
        let healthcheck = arguments.next_if(|first| first == "--healthcheck").is_some();
        let serve = if healthcheck { Self::Healthcheck } else { Self::Run };
        let Some(first) = arguments.next() else { return serve(Source::from_option(None)) };
        let file = match first.to_str() {
            Some("-h" | "--help") => return Self::Print(help(program)),
            Some("-V" | "--version") => return Self::Print(format!("{program}\n")),
            Some("--config") => arguments.next(),
            Some(option) if option.starts_with('-') => match option.strip_prefix("--config=") {
                Some(file) => Some(file.into()),
                None => return Self::unknown(program, &format!("unknown option {option}")),
            },
            _ => Some(first),
        };
        match (file, arguments.next()) {
            (Some(file), None) => serve(Source::File(file.into())),
            (None, _) => Self::unknown(program, "--config needs a FILE"),
            (Some(_), Some(more)) => {
                Self::unknown(program, &format!("unexpected second FILE: {}", more.display()))
            }
        }
    }

    fn unknown(program: Program, what: &str) -> Self {
        let name = program.name;
        Self::Unknown(format!("{name}: {what}; see {name} --help\n"))
    }
}

fn help(Program { name, .. }: Program) -> String {
    format!(
        "Usage: {name} [--healthcheck] [[--config] FILE]\n\nFILE is the configuration; without one the \
         defaults apply. Environment variables override its \
         keys:\nDELAYQ__REDIS__URL=redis://127.0.0.1:6379. `delayq config check` reports every \
         fault.\n\nOptions:\n  --healthcheck  Exit with 0 if the process with this configuration is ready, \
         else with 69 and the reason\n  -h, --help     Print help\n  -V, --version  Print version\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Invocation {
        Invocation::of(
            Program { name: "delayq-timer", version: "1.2.3" },
            arguments.iter().map(OsString::from),
        )
    }

    #[test]
    fn a_configuration_is_named_in_each_usual_way() {
        assert_eq!(asked(&[]), Invocation::Run(Source::Defaults));
        for arguments in [&["a.toml"][..], &["--config", "a.toml"], &["--config=a.toml"]] {
            assert_eq!(asked(arguments), Invocation::Run(Source::File("a.toml".into())), "{arguments:?}");
        }
        assert_eq!(asked(&["--healthcheck"]), Invocation::Healthcheck(Source::Defaults));
        let named = asked(&["--healthcheck", "--config", "a.toml"]);
        assert_eq!(named, Invocation::Healthcheck(Source::File("a.toml".into())));
    }

    #[test]
    fn questions_are_answered_and_invalid_arguments_are_named() {
        assert_eq!(asked(&["--version"]), Invocation::Print("delayq-timer 1.2.3\n".to_owned()));
        assert!(
            matches!(asked(&["-h"]), Invocation::Print(help) if help.starts_with("Usage: delayq-timer "))
        );
        for (arguments, word) in
            [(&["--confg"][..], "--confg"), (&["--config"], "FILE"), (&["a.toml", "b.toml"], "b.toml")]
        {
            assert!(
                matches!(asked(arguments), Invocation::Unknown(why) if why.contains(word)),
                "{arguments:?}"
            );
        }
    }
}
