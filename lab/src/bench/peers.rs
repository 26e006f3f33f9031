//! The peers: what people would use instead of Nearside, configured as a competent operator would
//! (`benches/peers.sh` installs them). A peer is one worker that keeps replies in memory for an
//! hour, writes no access log, never closes a connection because of its number of requests, and
//! shows a hit by a header of its own.
//!
//! All of them keep what the upstream lets them keep. A fair comparison needs a `Cache-Control:
//! max-age` that outlasts the run, because HAProxy and Envoy store nothing without one and keep
//! nothing for longer. Replies have no `Vary`: Envoy's filter does not store such replies, and
//! crashes with the setting that allows it (envoyproxy/envoy#40469).

mod envoy;
pub(crate) mod haproxy;
pub(crate) mod nginx;
mod peer;
mod varnish;

use super::subject::Candidate;

/// All of them, the most similar to Nearside first. nginx is there twice ([`nginx`] says why).
pub(super) const PEERS: [Candidate; 5] = [
    Candidate { name: haproxy::NAME, unix: true, start: haproxy::start },
    Candidate { name: nginx::NAME, unix: true, start: nginx::start },
    Candidate { name: nginx::SENDFILE_NAME, unix: true, start: nginx::start_sendfile },
    Candidate { name: varnish::NAME, unix: true, start: varnish::start },
    Candidate { name: envoy::NAME, unix: true, start: envoy::start },
];
