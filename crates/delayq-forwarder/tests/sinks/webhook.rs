//! The sink `webhook` against an HTTP server.

mod connections;
mod endpoint;
mod failures;
mod requests;

use crate::conformance::conforms;
use endpoint::Endpoint;

conforms!(Endpoint:
    everything_arrives_once,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_server_that_goes_down_midway_costs_no_message,
    a_lost_confirm_repeats_at_most_what_was_under_way,
    a_black_hole_is_left_behind_by_deadline,
    a_slow_server_keeps_its_leases,
    a_clean_stop_under_load_loses_and_repeats_nothing,
    a_refused_login_is_named_and_mended_without_a_loss,
);
