//! `scripts/setup.sh`, with an apt-get that installs nothing.

use delayq_tests::folder::Folder;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const TOOLS: [&str; 9] = ["sh", "bash", "id", "tee", "chmod", "mkdir", "rm", "env", "grep"];

/// A system without one package, and the file that keeps Debian from starting servers.
struct System {
    folder: Folder,
    policy: PathBuf,
}

// === impl System ===

impl System {
    /// `install` replaces apt-get's installation.
    fn new(install: &str) -> Self {
        let folder = Folder::new("setup");
        for tool in TOOLS {
            let places = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
            symlink(places.iter().find(|path| path.exists()).unwrap(), folder.join(tool)).unwrap();
        }
        let policy = folder.join("policy-rc.d");
        let asks = format!("sh '{}'; echo $? >> '{}'", policy.display(), folder.join("answers").display());
        let apt_get = format!("case \"$*\" in *install*) {asks}\n{install}\n;; esac");
        for (name, body) in [("cargo", ""), ("sudo", "exec \"$@\""), ("apt-get", &apt_get)] {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder, policy }
    }

    /// Returns the exit status, and the policy for starting servers meanwhile.
    fn set_up(&self) -> (ExitStatus, String) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/setup.sh");
        let mut command = Command::new("/bin/bash");
        command.args([script, "check"]).env_clear();
        command.env("PATH", self.folder.path()).env("POLICY_RC_D", &self.policy);
        let ended = command.output().unwrap().status;
        (ended, std::fs::read_to_string(self.folder.join("answers")).unwrap_or_default())
    }
}

#[test]
fn a_setup_that_is_killed_keeps_no_server_from_starting() {
    for signal in ["KILL", "TERM"] {
        let system = System::new(&format!("kill -{signal} $PPID"));
        let (ended, answers) = system.set_up();
        assert!(!ended.success());
        assert_eq!(answers, "101\n", "no server starts meanwhile");
        if system.policy.exists() {
            assert!(Command::new("sh").arg(&system.policy).status().unwrap().success(), "after SIG{signal}");
        }
        assert!(!system.policy.exists(), "after SIG{signal}");
    }
}

#[test]
fn what_a_killed_setup_left_is_taken_over_and_the_policy_of_another_is_kept() {
    let system = System::new("");
    std::fs::write(&system.policy, "#!/bin/sh\n# written by delayq's setup.sh, process 0\nexit 101\n")
        .unwrap();
    assert!(system.set_up().0.success());
    assert!(!system.policy.exists());
    let foreign = "#!/bin/sh\nexit 101\n";
    std::fs::write(&system.policy, foreign).unwrap();
    assert!(system.set_up().0.success());
    assert_eq!(std::fs::read_to_string(&system.policy).unwrap(), foreign);
}
