//! Small C libraries that a test's programs load before libc.

use crate::folder::Folder;
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Library {
    _folder: Folder,
    pub(crate) path: PathBuf,
}

// === impl Library ===

impl Library {
    /// Compiles a source. Needs a C compiler named `cc`.
    pub(crate) fn compile(name: &str, source: &str) -> Self {
        let folder = Folder::new(name);
        let from = folder.join(&format!("{name}.c"));
        let path = folder.join(&format!("{name}.so"));
        std::fs::write(&from, source).expect("a folder just made can be written to");
        let output = Command::new("cc")
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&path, &from])
            .args(["-ldl"])
            .output()
            .unwrap_or_else(|e| panic!("{name} needs a C compiler named cc: {e}"));
        assert!(output.status.success(), "cc failed:\n{}", String::from_utf8_lossy(&output.stderr));
        Self { _folder: folder, path }
    }
}
