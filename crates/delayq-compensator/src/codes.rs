//! The stable codes of the compensator's errors.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// There is nothing to carry out.
    NO_SPOOL = Code {
        id: "DQ-K001",
        title: "there is nothing to do",
        cause: "A compensator resubmits the spool of its host, takes in records from brokers and applies the \
                outbox of a database. None of the three is configured.",
        tries: [
            "Set `[spool] dir` to the spool folder of this host's producers, or configure an intake or \
             `[outbox] url`.",
            "Do not start a compensator on a host whose producers have no spool.",
            "See what applies: `delayq config show --effective`.",
        ],
        exit: Exit::Config,
    };

    /// The spool cannot be used.
    SPOOL = Code {
        id: "DQ-K002",
        title: "the spool cannot be used",
        cause: "The folder is not writable, is in use by another compensator, or its file is damaged, of a \
                newer version or of another kind. The message says which. Nothing was changed.",
        tries: [
            "Check the folder's owner, mode and free space.",
            "If another compensator uses the folder, stop one of the two.",
            "If the file is damaged, stop the producers of this host, then: delayq spool salvage.",
        ],
        exit: Exit::Unavailable,
    };

    /// An intake cannot be created.
    INTAKE = Code {
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

    /// There is no outbox to read.
    NO_OUTBOX = Code {
        id: "DQ-K010",
        title: "no outbox",
        cause: "`[outbox] url` is unset, or names a database that this program was not built for. The \
                message says which.",
        tries: [
            "Set `[outbox] url`, such as { env = \"DATABASE_URL\" }.",
            "Use the packaged program, or build it with the feature `postgres` or `mysql`.",
            "See what applies: `delayq config show --effective`.",
        ],
        exit: Exit::Config,
    };

    /// The outbox cannot be used.
    OUTBOX = Code {
        id: "DQ-K011",
        title: "the outbox cannot be used",
        cause: "The database cannot be reached; or its tables are missing, of another version, restored from \
                another cluster, or not accessible to this user. The message says which. Nothing was \
                changed.",
        tries: [
            "Check the URL, the password and the certificates of `[outbox]`.",
            "If the tables are missing, create them: `delayq outbox init`.",
            "If they came from another cluster, by a dump or an upgrade: `delayq outbox init --adopt`.",
        ],
        exit: Exit::Unavailable,
    };
}
