//! Checks an intake: access to the topic, queue or stream, running compensator, and waiting or dropped records.

use crate::output::counted;
use delayq_compensator::{IntakeConfig, IntakeFault, IntakeLook, look_at_intake};
use delayq_look::Check;
use std::time::Duration;

const WHAT: &str = "intake";

pub(super) async fn look(name: &str, config: &IntakeConfig, patience: Duration) -> Check {
    let looked = tokio::time::timeout(patience, look_at_intake(config)).await;
    let silent = |_| Err(IntakeFault::Unreachable(format!("no answer within {patience:?}")));
    judge(name, looked.unwrap_or_else(silent))
}

fn judge(name: &str, looked: Result<IntakeLook, IntakeFault>) -> Check {
    let IntakeLook { lag, lost, reader } = match looked {
        Ok(look) => look,
        Err(fault) => {
            let found = format!("{name}: {fault}");
            return match fault {
                IntakeFault::Unreachable(_) => {
                    Check::bad(WHAT, found, format!("start the broker, or correct [intake.{name}]"))
                }
                IntakeFault::Unusable(_) => {
                    Check::bad(WHAT, found, "create it, or grant this user access: docs/guides/intake.md")
                }
                IntakeFault::Unknown(_) => Check::warning(WHAT, found, "use a delayq built with that client"),
            };
        }
    };
    let waits = match lag {
        0 => "nothing waits".to_owned(),
        1 => "1 record waits".to_owned(),
        count => format!("{} wait", counted(count, "record")),
    };
    if lost > 0 {
        let lost = counted(lost, "record");
        let found = format!("{name}: the broker dropped up to {lost} before they were read; {waits}");
        return Check::bad(
            WHAT,
            found,
            "publish them again, and give the broker a longer retention: docs/guides/intake.md",
        );
    }
    let start = "start a delayq-compensator with this configuration";
    match reader {
        Some(reader) => Check::good(WHAT, format!("{name}: read by {reader}; {waits}")),
        None if lag == 0 => {
            Check::warning(WHAT, format!("{name}: no compensator is reading it; {waits}"), start)
        }
        None => Check::bad(WHAT, format!("{name}: no compensator is reading it, and {waits}"), start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Judgement;

    #[test]
    fn an_intake_that_nobody_reads_is_bad_once_something_waits() {
        let look =
            |lag, reader: Option<&str>| Ok(IntakeLook { lag, lost: 0, reader: reader.map(str::to_owned) });
        let lost = Ok(IntakeLook { lag: 50, lost: 60, reader: Some("x".to_owned()) });
        let gone = Err(IntakeFault::Unreachable("refused".to_owned()));
        for (looked, judgement, found) in [
            (look(0, None), Judgement::Warning, "in: no compensator is reading it; nothing waits"),
            (look(1, None), Judgement::Bad, "in: no compensator is reading it, and 1 record waits"),
            (look(2, Some("x")), Judgement::Good, "in: read by x; 2 records wait"),
            (
                lost,
                Judgement::Bad,
                "in: the broker dropped up to 60 records before they were read; 50 records wait",
            ),
            (gone, Judgement::Bad, "in: refused"),
            (Err(IntakeFault::Unknown("no client".to_owned())), Judgement::Warning, "in: no client"),
        ] {
            let seen = judge("in", looked);
            assert_eq!((seen.verdict, seen.found.as_str()), (judgement, found));
            assert_eq!(seen.advice.is_empty(), judgement == Judgement::Good, "{seen:?}");
        }
    }
}
