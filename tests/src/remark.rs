//! A test's remarks beyond *passed* and *failed*, written past libtest, which hides the output of a passing test. `make
//! test` repeats these lines at its end (`scripts/test-rust.py`).

use std::io::Write as _;

/// Reports that the running test is skipped, wholly or in part.
pub fn skipped(why: &str) {
    remark(&format!("SKIPPED {}: {why}", this_test()));
}

pub(crate) fn this_test() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

pub(crate) fn remark(line: &str) {
    // A single write keeps the line whole among other tests' lines.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
