//! The command line of delayq.
