//! The stable codes of the errors that end a gateway. `problem/kind.rs` has the codes of answers.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// The address cannot be bound.
    BIND = Code {
        id: "DQ-G001",
        title: "the gateway cannot listen",
        cause: "An address of `[gateway] listen` or `[lmstfy]` is in use, or does not belong to this host.",
        tries: [
            "Find the program that uses the port: ss -ltnp.",
            "Set another address: DELAYQ__GATEWAY__LISTEN=127.0.0.1:9481.",
            "Set port 0 to use any free port; the log names it.",
        ],
        exit: Exit::Unavailable,
    };

    /// The tokens cannot be read.
    TOKENS = Code {
        id: "DQ-G002",
        title: "the tokens cannot be used",
        cause: "The file of `[gateway] tokens` is missing, unreadable or empty, or has an invalid line. A \
                line is NAME and the SHA-256 of a token, optionally followed by rights, `tenant=NAME` and `until=TIME`.",
        tries: [
            "Write a line for each token: NAME, a space, and what `printf %s \"$TOKEN\" | sha256sum` prints.",
            "Check that the user of this process can read the file.",
            "Run `delayq config check`.",
        ],
        exit: Exit::Config,
    };

    /// The key of receipts cannot be read.
    RECEIPT_KEY = Code {
        id: "DQ-G003",
        title: "the receipt key cannot be used",
        cause: "The secret of `[gateway] receipt_key` cannot be read, or has fewer than 16 characters.",
        tries: [
            "Create a key: openssl rand -hex 32. All gateways of a deployment need the same key.",
            "Check that the user of this process can read the file.",
            "Remove the setting: the gateways then share a key in Redis.",
        ],
        exit: Exit::Config,
    };

    /// The identity provider of people cannot be set up.
    OIDC = Code {
        id: "DQ-G006",
        title: "the logins of people cannot be set up",
        cause: "The secret of `[gateway.oidc] client_secret`, a file of `ca`, `cert` or `key`, or a group of \
                `[gateway.oidc.groups]` cannot be used.",
        tries: [
            "Run `delayq config check`: it names the setting.",
            "Check that the user of this process can read the files.",
            "Remove `[gateway.oidc]`: people then log in with a token.",
        ],
        exit: Exit::Config,
    };

    /// The spool cannot be used.
    SPOOL = Code {
        id: "DQ-G007",
        title: "the gateway cannot use the spool",
        cause: "The folder of `[spool] dir` cannot be written by this user, or its file is damaged, of a newer version or of \
                another kind. The message says which. Nothing was changed.",
        tries: [
            "Run the gateway as the user of the compensator, who owns the folder.",
            "Check the folder's owner, mode and free space; if the file is damaged, stop its producers, then: delayq spool salvage.",
            "Unset `[spool] dir`: writes then get 503 while Redis is unavailable.",
        ],
        exit: Exit::Unavailable,
    };

    /// The password of an account cannot be read.
    ACCOUNTS = Code {
        id: "DQ-G004",
        title: "an account of the lmstfy admin API cannot be used",
        cause: "A password of `[lmstfy] accounts` cannot be read.",
        tries: [
            "Check that this process can read the file or environment variable.",
            "Run `delayq config check`.",
            "Remove the account.",
        ],
        exit: Exit::Config,
    };

    /// The certificate cannot be used.
    CERTIFICATE = Code {
        id: "DQ-G005",
        title: "the gateway's certificate cannot be used",
        cause: "A file of `[gateway] cert`, `key` or `ca` is missing or unreadable, is not PEM, or the key belongs to another \
                certificate.",
        tries: [
            "Run `delayq config check`: it names the file.",
            "Check that the user of this process can read the files; a key must have no passphrase.",
            "Compare the two: openssl x509 -in CERT -noout -pubkey; openssl pkey -in KEY -pubout.",
        ],
        exit: Exit::Config,
    };
}
