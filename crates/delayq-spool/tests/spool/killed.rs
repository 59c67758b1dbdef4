//! Writers that end in the middle of an append.

use super::{ids, open, put, reader, released};
use delayq_tests::deadline::{LONG, SHORT};
use delayq_tests::environment::at_length;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal, Stream};
use std::path::Path;
use std::process::Command;

#[tokio::test]
async fn a_dropped_append_is_there_whole_or_not_at_all() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    for n in 0..50 {
        let append = spool.append((0..10).map(|m| put(&format!("{n}:{m}"), 100)).collect());
        tokio::select! {
            biased;
            _ = append => {}
            () = tokio::task::yield_now() => {}
        }
    }
    drop(spool);
    released(folder.path()).await;
    let seen = ids(&reader(folder.path()));
    assert_eq!(seen.len() % 10, 0);
    for n in 0..50 {
        let own = seen.iter().filter(|id| id.starts_with(&format!("{n}:"))).count();
        assert!(own == 0 || own == 10, "{own} of append {n}");
    }
}

fn appender(folder: &Path) -> Process {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/spool_appender");
    let mut command = Command::new(example);
    command.arg(folder);
    Process::spawn("spool_appender", command)
}

#[tokio::test]
async fn what_a_killed_writer_had_acknowledged_is_there_without_a_gap() {
    for round in 0..5_usize {
        let folder = Folder::new("spool");
        let mut writer = appender(folder.path());
        writer.wait_for_line(&format!("acknowledged {}", 100 + 77 * round), SHORT).await;
        writer.end_by(Signal::KILL, SHORT).await;
        let acknowledged: Vec<usize> = writer
            .text(Stream::Out)
            .lines()
            .filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok())
            .collect();
        let reader = reader(folder.path());
        let mut seen: Vec<usize> = ids(&reader).iter().map(|id| id.parse().unwrap()).collect();
        let batch = reader.waiting(0, 1_000_000).unwrap();
        let first = batch[0].seq;
        assert!(batch.iter().zip(first..).all(|(spooled, seq)| spooled.seq == seq), "a gap in the numbers");
        seen.sort_unstable();
        let lost: Vec<_> = acknowledged.iter().filter(|n| seen.binary_search(n).is_err()).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        assert!(reader.stats().unwrap().balances());
    }
}

#[tokio::test]
async fn processes_that_share_a_spool_wait_for_each_other_and_none_is_refused() {
    let folder = Folder::new("spool");
    let mut writers: Vec<Process> = (0..at_length(40, 300)).map(|_| appender(folder.path())).collect();
    for writer in &mut writers {
        writer.wait_for_line("acknowledged 80", LONG * at_length(1, 10)).await;
    }
    for writer in &mut writers {
        writer.end_by(Signal::KILL, LONG).await;
    }
    let said = writers.iter().map(|writer| writer.text(Stream::Out)).collect::<String>();
    let refused: Vec<_> = said.lines().filter(|line| line.starts_with("refused")).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(reader(folder.path()).stats().unwrap().balances());
}
