//! TLS to the regions: whom the sidecar trusts, and which certificate it shows.

use std::sync::Arc;

use rustls::{ClientConfig, Error};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::config::certificates::Certificates;

/// The settings for regions whose `tls` names these certificates; with the machine's trust roots if
/// it names none.
///
/// # Errors
/// When the machine has no usable CA certificates, or the client certificate cannot be used. The
/// operator has to fix it.
pub(crate) fn settings(certificates: Certificates) -> Result<ClientConfig, Error> {
    let Certificates { roots, client, .. } = certificates;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let trusting = match roots {
        Some(roots) => builder.with_root_certificates(roots),
        None => builder.with_platform_verifier()?,
    };
    Ok(with_alpn(match client {
        Some((chain, key)) => trusting.with_client_auth_cert(chain, key)?,
        None => trusting.with_no_client_auth(),
    }))
}

/// Offers HTTP/2 before HTTP/1.1.
pub(crate) fn with_alpn(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
