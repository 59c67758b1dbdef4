//! The operator-facing errors of the forwarder.

use delayq_service::Exit;
use delayq_service::codes::Code;

delayq_service::codes! {
    /// A destination is unsafe as configured.
    DESTINATION_REFUSED = Code {
        id: "DQ-F001",
        title: "a destination must not be used",
        cause: "A setting of the destination would lose confirmed messages, or the destination can never \
                accept any. The message names the sink and the setting.",
        tries: [
            "At the destination, change the setting that the message names.",
            "Send the topic elsewhere: change the sink or `to` of its route.",
            "If the loss is acceptable, allow it with the sink's own key; see docs/forwarder.md.",
        ],
        exit: Exit::Config,
    };

    /// A destination cannot be reached at start.
    DESTINATION_UNREACHABLE = Code {
        id: "DQ-F002",
        title: "a destination cannot be reached",
        cause: "The server of a sink did not answer, refused the login, or does not have the destination; or \
                the folder of a file sink is not writable. The message names the sink and the cause.",
        tries: [
            "Check what the message names: address, user and password of the sink, or its folder.",
            "If the destination is missing, create it.",
            "To start without the sink, set its `required = false`: messages wait until it is available.",
        ],
        exit: Exit::Unavailable,
    };

    /// A sink cannot be created.
    SINK_UNUSABLE = Code {
        id: "DQ-F003",
        title: "a sink cannot be created",
        cause: "A value of the sink's section is invalid, or this program was built without the sink's client.",
        tries: [
            "Read the message, which names the sink and the value.",
            "Use the released binary, which has every sink, or build with --features all-sinks.",
            "Run `delayq config check`.",
        ],
        exit: Exit::Config,
    };
}
