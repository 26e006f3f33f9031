//! One policy for all outgoing calls: no proxy, whatever the environment says, and names as
//! [`super::names`] finds them. Regions' connections have neither a proxy nor a redirect to begin
//! with; the SDK's are made in `aws`. `tests/house.rs` keeps other clients out.

use std::sync::Arc;

use super::names::Resolver;

/// A client that goes straight to whom it asks, and follows nobody elsewhere. Must be called within
/// a runtime.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(Resolver::of_the_machine()))
}
