//! The service that a sidecar fronts, and its regions.

use std::path::PathBuf;

use http::HeaderName;
use url::Url;

use super::arn::TopicArn;
use super::identity::IdentityMode;
use super::route::Route;
use super::scope::{Collector, SettingScope};
use super::table::{Rows, inner_or_empty, list, settings, unset};

settings! {
    /// `[service]`
    #[derive(Clone, Debug)]
    pub struct Service in Service {
        /// Name of the service in logs and metrics.
        name: String = SERVICE_NAME(Text, Is("service")) Restart;
        /// The header in which replies state their records' versions.
        version_header: HeaderName = VERSION_HEADER(Header, Is("x-record-version")) Restart;
        /// 1 to 16 regions, in the order of the file; the first is the primary unless `race.primary`
        /// names another. A reload takes up the settings of each, but no other regions.
        regions: Vec<RegionConfig> = list[];
        /// Routed paths, matched in the order of the file.
        routes: Vec<Route> = list[];
        /// Its only region is a table that is read consistently: whatever that says is so. A region's
        /// node says this of itself; no file can.
        authoritative: bool = unset[] Restart;
    }
}

impl Service {
    /// Gives the regions their AWS regions, for routes whose requests are signed.
    pub(super) fn name_aws_regions(&mut self) {
        let names: Vec<String> = self.regions.iter().map(|region| region.name.clone()).collect();
        for route in &mut self.routes {
            if let IdentityMode::Sidecar(own) = &mut route.identity {
                own.name_aws_regions(&names);
            }
        }
    }
}

settings! {
    /// `[[service.region]]`
    #[derive(Clone, Debug)]
    pub struct RegionConfig in Region {
        /// Name of the region in labels, `Cache-Status` and logs.
        name: String = REGION_NAME(RegionName, Required("region-{N}")) Restart;
        /// URL at which the region answers: scheme, host, port and perhaps a path prefix.
        url: Url = REGION_URL(Url, Required("http://127.0.0.1:1/{N}"));
        /// The SNS topic on which the region announces its changes; none when it announces nothing.
        topic: Option<TopicArn> = REGION_TOPIC(Topic, Is("")) Restart;
        /// Certificates that the sidecar trusts and presents over TLS.
        tls: RegionTls = inner_or_empty[];
    }
}

settings! {
    /// `tls` of a region.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RegionTls in Tls {
        /// A PEM file with the CA certificates that are trusted for this region instead of the platform's.
        ca_file: Option<PathBuf> = TLS_CA_FILE(File, Is(""));
        /// Certificate that the sidecar presents.
        client: Option<ClientCertificate> = ClientCertificate::read[
            /// A PEM file with the certificate that this region is shown, and its issuers'.
            TLS_CLIENT_CERT("client_cert", File, Is(""));
            /// A PEM file with that certificate's private key.
            TLS_CLIENT_KEY("client_key", File, Is(""));
        ];
    }
}

/// `tls.client_cert` and `tls.client_key` of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate and those it was issued by.
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl ClientCertificate {
    fn read(collector: &mut Collector, scope: &SettingScope, [cert, key]: Rows<2>) -> Option<Self> {
        let (cert, key) = (scope.get::<Option<_>>(collector, cert), scope.get::<Option<_>>(collector, key));
        cert.zip(key).map(|(cert, key)| Self { cert, key })
    }
}
