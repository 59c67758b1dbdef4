//! Asks before an action that cannot be undone.

use crate::failure::{NOT_CONFIRMED, file};
use crate::output::complain;
use delayq_service::Fault;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// Describes the action and asks for confirmation, unless `yes` confirms in advance.
///
/// # Errors
/// The answer is not yes, or there is no terminal to ask on.
pub fn confirm(what: &str, yes: bool) -> Result<(), Fault> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let message = format!("{what}; no terminal to ask on: confirm with --yes");
        return Err(Fault::new(&NOT_CONFIRMED, message));
    }
    complain(what);
    eprint!("Continue? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.map_err(|error| file("the terminal".as_ref(), "read from", error))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Fault::new(&NOT_CONFIRMED, format!("{what}; not confirmed"))),
    }
}
