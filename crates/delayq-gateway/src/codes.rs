//! The stable codes of the errors that end a gateway. `problem/kind.rs` has the codes of answers.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// The address cannot be bound.
    BIND = Code {
        id: "DQ-G001",
        title: "the gateway cannot listen",
        cause: "The address of `[gateway] listen`, or one of `[lmstfy]`, is taken, or does not belong to this host.",
        tries: [
            "Find the program that has the port: ss -ltnp.",
            "Set another address: DELAYQ__GATEWAY__LISTEN=127.0.0.1:9481.",
            "Use port 0 for a free port, which the log names.",
        ],
        exit: Exit::Unavailable,
    };

    /// The tokens cannot be read.
    TOKENS = Code {
        id: "DQ-G002",
        title: "the tokens cannot be used",
        cause: "The file of `[gateway] tokens` is missing, unreadable or empty, or one of its lines is not NAME and the SHA-256 \
                of a token, with rights and `until=TIME` behind.",
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
        title: "the key of receipts cannot be used",
        cause: "The secret of `[gateway] receipt_key` cannot be read, or has fewer than 16 characters.",
        tries: [
            "Make one: openssl rand -hex 32. All gateways of a deployment need the same.",
            "Check that the user of this process can read the file.",
            "Leave the setting out: gateways then share a key that they keep in Redis.",
        ],
        exit: Exit::Config,
    };

    /// The password of an account cannot be read.
    ACCOUNTS = Code {
        id: "DQ-G004",
        title: "an account of lmstfy's admin API cannot be used",
        cause: "A password of `[lmstfy] accounts` cannot be read.",
        tries: [
            "Check that the user of this process can read the file, or has the variable.",
            "Run `delayq config check`.",
            "Leave the account out.",
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
            "Check that the user of this process can read the files; a key must need no passphrase.",
            "Compare the two: openssl x509 -in CERT -noout -pubkey; openssl pkey -in KEY -pubout.",
        ],
        exit: Exit::Config,
    };
}
