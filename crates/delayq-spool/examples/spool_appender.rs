//! Appends to the spool of the given folder, eight records at a time, and prints each number as acknowledged or refused. The
//! spool's tests kill this program.

use delayq_core::fate::Fate;
use delayq_core::id::Topic;
use delayq_core::message::Message;
use delayq_core::spool::SpoolRecord;
use delayq_core::time::UnixMillis;
use delayq_spool::{SpoolSettings, SpoolWriter};
use std::error::Error;
use std::io::Write;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder of a spool")?;
    let max_bytes =
        std::env::args().nth(2).map_or(Ok(SpoolSettings::default().max_bytes), |text| text.parse())?;
    let spool = SpoolWriter::open(Path::new(&folder), &SpoolSettings { max_bytes })?;
    let topic = Topic::new("orders")?;
    let tasks = (0..8_u64).map(|task| tokio::spawn(append_for_ever(spool.clone(), topic.clone(), task)));
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

async fn append_for_ever(spool: SpoolWriter, topic: Topic, task: u64) -> Result<(), String> {
    for n in (task..).step_by(8) {
        let message = Message::new(topic.clone(), "a payload of some bytes").id(n.to_string());
        let message = message.map_err(|error| error.to_string())?;
        let record = SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(n));
        // One write for a line, so that a kill leaves no half line.
        let line = match spool.append(vec![record]).await {
            Ok(()) => format!("acknowledged {n}\n"),
            Err(error) => format!("refused {n}: {error}\n"),
        };
        std::io::stdout().write_all(line.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}
