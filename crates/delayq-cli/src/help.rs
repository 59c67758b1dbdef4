//! The help of `delayq`: the commands grouped by task, and the environment variables.

use crate::commands::TASKS;
use clap::Command;
use std::fmt::Write as _;

/// The variables that every command reads, and the effect of each.
pub const VARIABLES: [(&str, &str); 5] = [
    ("DELAYQ_CONFIG", "The configuration file; --config overrides it"),
    ("DELAYQ__SECTION__KEY", "Overrides a key of the file: DELAYQ__REDIS__URL"),
    ("RUST_LOG", "Overrides [log] filter"),
    ("TZ", "Time zone of times that name no zone: Europe/Berlin"),
    ("NO_COLOR", "Any value: no colours"),
];

const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// The command line with help grouped by task.
pub fn by_task(whole: Command) -> Command {
    let mut built = whole.clone();
    built.build();
    let about = |name: &str| {
        let command = built.get_subcommands().find(|command| command.get_name() == name);
        command.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default()
    };
    let mut text = String::new();
    for (task, names) in TASKS {
        writeln!(text, "{task}:").expect("writing to a string cannot fail");
        for name in *names {
            writeln!(text, "  {name:<12} {}", about(name)).expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    whole.before_help(text.trim_end().to_owned()).help_template(TEMPLATE).after_help(after())
}

fn after() -> String {
    let mut text = "Environment:\n".to_owned();
    for (name, meaning) in VARIABLES {
        writeln!(text, "  {name:<21} {meaning}").expect("writing to a string cannot fail");
    }
    text + "\n`delayq help COMMAND` explains a command."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_help_has_every_task_and_the_global_options() {
        let help = by_task(Cli::command()).render_help().to_string();
        for expected in [
            "Messages:\n  put          Put a message",
            "--config <FILE>",
            "Environment:\n  DELAYQ_CONFIG ",
            "delayq help COMMAND",
        ] {
            assert!(help.contains(expected), "{expected} is not in\n{help}");
        }
    }
}
