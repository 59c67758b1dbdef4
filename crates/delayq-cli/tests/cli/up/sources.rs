//! Sources of recorded writes: an unusable source stops nothing else.

use super::delayq;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;
use std::os::unix::fs::DirBuilderExt as _;

#[tokio::test]
async fn a_spool_that_cannot_be_used_does_not_stop_the_timer() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    // A folder of `up` is closed to other users.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data.join("spool")).unwrap();
    std::fs::write(data.join("spool/spool.db"), "this is no database".repeat(1000)).unwrap();
    let mut up = Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(&data).start();
    up.wait_for_line("delayq is up", LONG).await;
    for args in
        [&["put", "orders", "{}", "--in", "100ms"][..], &["work", "orders", "--count", "1", "--", "true"]]
    {
        let finished = delayq(&data, args).env("DELAYQ__SPOOL__DIR", "").run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
    }
    up.ends_well_by(Signal::INT, SHORT).await;
}
