//! The stable codes of operator-facing errors, each with a cause and three things to try.
//!
//! A code never changes its meaning and is never reused. Codes of this crate begin with `C` (configuration), `P`
//! (process) and `R` (Redis, [`redis`]). A crate with errors of its own declares its [`codes!`](crate::codes!) under another
//! letter. `docs/errors.md` is made from the tables.

mod code;
pub mod redis;

pub use code::Code;

use crate::exit::Exit;

crate::codes! {
    /// The configuration has faults; each is listed with key, file and line.
    CONFIG_FAULTY = Code {
        id: "DQ-C001",
        title: "the configuration has faults",
        cause: "A key is unknown, a value has the wrong type or is out of its range, or two settings contradict each \
                other. All faults are listed at once; nothing was started.",
        tries: [
            "Fix each listed line; the message names the accepted values.",
            "Compare with config/delayq.toml, which lists every key and its default.",
            "Check the environment for DELAYQ__ variables: they override the file.",
        ],
        exit: Exit::Config,
    };

    /// The configuration file cannot be read.
    CONFIG_UNREADABLE = Code {
        id: "DQ-C002",
        title: "the configuration file cannot be read",
        cause: "The file does not exist, is not readable by the user of this process, or is not UTF-8.",
        tries: [
            "Check the given path, which is relative to the working directory of the process.",
            "Check the owner and mode of the file and its parent folders.",
            "Start without a file to use only the defaults and the environment.",
        ],
        exit: Exit::Config,
    };

    /// The log filter in `RUST_LOG` or in `[log]` is invalid.
    LOG_FILTER = Code {
        id: "DQ-C003",
        title: "the log filter is invalid",
        cause: "RUST_LOG overrides `[log] filter`; both hold directives such as `info` or `info,delayq_timer=debug`.",
        tries: [
            "Unset RUST_LOG to fall back to the configuration.",
            "Use one of error, warn, info, debug, trace.",
            "Separate directives with commas: `warn,delayq=debug`.",
        ],
        exit: Exit::Config,
    };

    /// The admin endpoint cannot listen on its address.
    ADMIN_BIND = Code {
        id: "DQ-P001",
        title: "the admin endpoint cannot listen",
        cause: "The address of `[admin] listen` is used by another process, does not belong to this host, or needs a \
                privilege.",
        tries: [
            "Give each process on a host its own port: DELAYQ__ADMIN__LISTEN=127.0.0.1:9441.",
            "Find the process that uses the port: ss -ltnp.",
            "Set `listen = \"\"` to run without the endpoint.",
        ],
        exit: Exit::Unavailable,
    };

    /// A task ended without a shutdown.
    TASK_ENDED = Code {
        id: "DQ-P002",
        title: "a task ended without a shutdown",
        cause: "Every task of a service runs until shutdown. This one returned or panicked earlier, so the \
                process exits rather than run without it.",
        tries: [
            "Read the log lines before this one: a panic is logged with its location.",
            "Restart the process; its messages return when the leases expire.",
            "Report the bug with the log.",
        ],
        exit: Exit::Bug,
    };

    /// The drain deadline passed with tasks still running.
    DRAIN_DEADLINE = Code {
        id: "DQ-P003",
        title: "the drain deadline passed",
        cause: "The process was asked to stop, and the tasks named in the message did not finish in time. Their \
                messages return when the leases expire.",
        tries: [
            "Raise `[shutdown] drain_deadline`, and the supervisor's own kill timeout above it.",
            "Find out which destination was slow at that time.",
            "If the same task is named every time, report it with the log.",
        ],
        exit: Exit::DrainDeadline,
    };

    /// The operating system refused a resource that every process needs.
    SYSTEM = Code {
        id: "DQ-P004",
        title: "the operating system refused a basic service",
        cause: "Threads, signal handlers or sockets are not available; the message names the call.",
        tries: [
            "Check the limits of the unit or container: tasks, memory, open files.",
            "Check that the host is not out of memory.",
            "Restart the process.",
        ],
        exit: Exit::Unavailable,
    };

    /// The checked process is not ready, or is silent.
    NOT_READY = Code {
        id: "DQ-P006",
        title: "the process is not ready",
        cause: "`--healthcheck` asked the admin endpoint of the process with the same configuration. The \
                endpoint did not answer, or reported unmet conditions.",
        tries: [
            "Read the conditions in the message, and the log of the process.",
            "Check everything that the process needs: delayq doctor.",
            "Use the same configuration for both: the address asked is `[admin] listen`.",
        ],
        exit: Exit::Unavailable,
    };
}
