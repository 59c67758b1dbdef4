//! The forwarder: moves ready messages into an external message queue, with confirms.
