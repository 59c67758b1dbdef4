//! The jars of a server in the build folder, where later runs find them, with an archive of the classes that the server
//! loads: it halves what the start of a JVM costs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone)]
pub(crate) struct Jars(PathBuf);

// === impl Jars ===

impl Jars {
    /// Fetches them if they are missing: those of `tests/SERVER/pom.xml`, into a folder of this name. Nobody else changes the
    /// folder while the file is held.
    ///
    /// # Panics
    /// If they cannot be fetched; the message contains the output.
    pub(crate) fn fetched(server: &str, folder: &str) -> (Self, File) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (pom, jars) = (tests.join(server).join("pom.xml"), tests.join("../target").join(folder));
        // One test fetches, the others wait for it, in this process and in others.
        let lock = jars.with_extension("lock");
        std::fs::create_dir_all(jars.parent().expect("the folder of the jars is in the build's"))
            .expect("target can be made");
        let lock = File::create(lock).expect("the folder of the build can be written to");
        lock.lock().expect("a lock is given when its holder has fetched");
        // Written last, so that an interrupted fetch is repeated, and one by another list of jars.
        let done = jars.join("complete");
        let list = std::fs::read_to_string(&pom).expect("the list of jars is part of this crate");
        if std::fs::read_to_string(&done).ok().as_ref() != Some(&list) {
            let _ = std::fs::remove_dir_all(&jars);
            fetch(&pom, &jars);
            std::fs::write(done, list).expect("the folder of the jars was just written to");
        }
        (Self(jars), lock)
    }

    pub(crate) fn class_path(&self) -> PathBuf {
        self.0.join("*")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.0.join("loaded.jsa")
    }

    /// The option of a JVM that uses the archive if it fits the JVM, and does without if not.
    pub(crate) fn archived(&self) -> String {
        format!("-XX:SharedArchiveFile={}", self.archive().display())
    }
}

fn fetch(pom: &Path, jars: &Path) {
    let output = format!("-DoutputDirectory={}", jars.display());
    let mut fetch = Command::new("mvn");
    fetch.args(["-q", "-B", "-f"]).arg(pom);
    fetch.args(["dependency:copy-dependencies", "-DincludeScope=runtime", &output]);
    run(&mut fetch, &format!("fetching the jars of {}", pom.display()));
}

/// Panics with the output if the command fails.
pub(crate) fn run(command: &mut Command, what: &str) {
    let output = command.output().unwrap_or_else(|e| panic!("{what} failed: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what} failed:\n{out}{err}");
}
