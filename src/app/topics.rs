//! The regions' subscriptions, which a sidecar has once it serves.

use std::sync::{Arc, OnceLock};

use crate::sidecar::announcements::subscription::Subscriptions;

/// The regions' subscriptions, once there are any.
pub(super) type Topics = Arc<OnceLock<Subscriptions>>;
