//! The SDK's HTTP client: it goes the same way as every other outgoing call, which is no proxy's,
//! and finds names as they do. The credentials providers use it too: a task's token that is meant
//! for a link-local address reaches nobody else.

use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::http::client::names::Resolver;

/// A client for all of the SDK's calls. Must be called within a runtime.
pub(super) fn client() -> SharedHttpClient {
    // This builder never looks at HTTP_PROXY, as the SDK's default client does.
    let builder = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
    builder.build_with_resolver(Resolver::of_the_machine())
}

impl ResolveDns for Resolver {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move { self.addresses(name).await.map_err(ResolveDnsError::new) })
    }
}
