//! One policy for all outgoing calls: no proxy, whatever the environment says, and names as
//! [`super::names`] finds them. Regions' connections have neither a proxy nor a redirect to begin
//! with; the SDK's are made in `aws`. `tests/house.rs` keeps other clients out.

use std::path::Path;
use std::sync::Arc;

use reqwest::Certificate;

use super::names::Resolver;
use crate::tasks::on_disk;

/// A client that goes straight to whom it asks, and follows nobody elsewhere. Must be called within
/// a runtime.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(Resolver::of_the_machine()))
}

/// Trusts the CAs in this PEM file instead of the machine's, as they are now. An error is its reason.
pub(crate) async fn trusting(builder: reqwest::ClientBuilder, file: &Path) -> Result<reqwest::ClientBuilder, String> {
    let file = file.to_owned();
    let read = on_disk(move || std::fs::read(file)).await.unwrap_or_else(|| Err(std::io::Error::other("lost")));
    let pem = read.map_err(|error| error.to_string())?;
    let roots = Certificate::from_pem_bundle(&pem).map_err(|error| cause(&error))?;
    Ok(builder.tls_certs_only(roots))
}

/// The innermost cause, which names no URL.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
