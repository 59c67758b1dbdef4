//! A killed test process leaves nothing behind. Also tests starting a workspace program.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::process::Signal;
use std::path::Path;

#[tokio::test]
async fn a_killed_test_process_leaves_no_server_and_no_folder() {
    let mut abandoning = Binary::new("examples/abandon").start();
    let line = abandoning.wait_for_line("redis-1", SHORT).await;
    let (server, folder) = line.split_once(' ').unwrap();
    let server = format!("/proc/{server}/stat");
    assert!(Path::new(&server).exists() && Path::new(folder).exists());
    abandoning.end_by(Signal::KILL, SHORT).await;
    wait_until("the janitor to end the server and remove the folder", SHORT, || {
        let stat = std::fs::read_to_string(&server).unwrap_or_default();
        let ended = stat.is_empty() || stat.contains(") Z ");
        std::future::ready(ended && !Path::new(folder).exists())
    })
    .await;
}

#[tokio::test]
async fn a_program_run_to_its_end_gives_its_output_and_code() {
    let finished = Binary::new("examples/abandon").run(b"enough\n", SHORT).await;
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("redis-1"));
}
