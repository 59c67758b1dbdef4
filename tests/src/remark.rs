//! What a test says of itself that is neither *passed* nor *failed*: past libtest, which hides the output of a test that
//! passes. `make test` repeats these lines at its end (`scripts/test-rust.sh`).

use std::io::Write as _;

/// The running test cannot be run here, or not all of it.
pub fn skipped(why: &str) {
    remark(&format!("SKIPPED {}: {why}", this_test()));
}

/// The name of the running test.
pub(crate) fn this_test() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

pub(crate) fn remark(line: &str) {
    // In one write, so that it stays a line among those of other tests.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
