//! The stable codes of the compensator's errors.

use delayq_service::Exit;
use delayq_service::codes::Code;

/// There is nothing to carry out.
pub const NO_SPOOL: Code = Code {
    id: "DQ-K001",
    title: "there is nothing to carry out",
    cause: "A compensator resubmits the spool of its host and takes in records of brokers, and `[spool] dir` is empty and no \
            `[intake.NAME]` is there.",
    tries: [
        "Set `[spool] dir` to the folder that the producers of this host spool to, or configure an intake.",
        "Do not start a compensator on a host whose producers have no spool.",
        "See what applies: `delayq config show --effective`.",
    ],
    exit: Exit::Config,
};

/// The spool cannot be used.
pub const SPOOL: Code = Code {
    id: "DQ-K002",
    title: "the spool cannot be used",
    cause: "The folder cannot be written to, another compensator has it, or its file is damaged, of a newer version or \
            of another kind; the message says which. Nothing was changed.",
    tries: [
        "Look at the folder's owner, mode and free space.",
        "If another compensator has it, stop one of the two.",
        "If the file is damaged, stop the producers of this host, then: delayq spool salvage.",
    ],
    exit: Exit::Unavailable,
};

/// The configuration of Redis is unusable.
pub const REDIS: Code = Code {
    id: "DQ-K003",
    title: "no client for Redis",
    cause: "The password, the certificate or the namespace cannot be used; the message says which.",
    tries: [
        "Check that the files of `[redis]` exist and can be read by this user.",
        "Run `delayq config check`.",
        "See what applies: `delayq config show --effective`.",
    ],
    exit: Exit::Config,
};

/// An intake cannot be created.
pub const INTAKE: Code = Code {
    id: "DQ-K006",
    title: "an intake cannot be created",
    cause: "A value of its section cannot be used, or this program was built without the client of its broker.",
    tries: [
        "Read the message: it names the intake and the value.",
        "Use the released binary, which has every intake, or build with --features all-intakes.",
        "Run `delayq config check`.",
    ],
    exit: Exit::Config,
};

/// Every code of the compensator, in the order of the documentation.
pub const TABLE: &[&Code] = &[&NO_SPOOL, &SPOOL, &REDIS, &INTAKE];
