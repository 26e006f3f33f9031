//! `tls` of the services: the certificate of a service's ports.

#[cfg(test)]
use std::path::PathBuf;

use crate::config::server_certificate::ServerCertificate;
use crate::config::table::settings;

settings! {
    /// `tls` of the catalogue.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CatalogueTls in CatalogueTls {
        /// Certificate of both ports; without one they speak plain HTTP.
        server: Option<ServerCertificate> = ServerCertificate::read[
            /// A PEM file with the certificate of the catalogue's ports, and its issuers'; none: no TLS.
            CATALOGUE_TLS_CERTIFICATE("certificate", File, Is(""));
            /// A PEM file with the private key of the catalogue's certificate.
            CATALOGUE_TLS_KEY("key", File, Is(""));
            /// A PEM file with the CA certificates that vouch for the catalogue's callers, instead of or beside
            /// tokens; none: no caller is asked for a certificate.
            CATALOGUE_TLS_CLIENT_CA("client_ca", File, Is(""));
        ] Restart;
    }
}

#[cfg(test)]
impl CatalogueTls {
    /// The certificate, key and CAs in these files.
    pub(crate) fn at(certificate: PathBuf, key: PathBuf, client_ca: Option<PathBuf>) -> ServerCertificate {
        ServerCertificate {
            certificate,
            key,
            client_ca,
            settings: [&CATALOGUE_TLS_CERTIFICATE, &CATALOGUE_TLS_KEY],
            of_client_ca: Some(&CATALOGUE_TLS_CLIENT_CA),
        }
    }
}

settings! {
    /// `tls` of the views service.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ViewsTls in ViewsTls {
        /// Certificate of its port; without one it speaks plain HTTP.
        server: Option<ServerCertificate> = ServerCertificate::read_pair[
            /// A PEM file with the certificate of the views service's port, and its issuers'; none: no TLS.
            VIEWS_TLS_CERTIFICATE("certificate", File, Is(""));
            /// A PEM file with the private key of the views service's certificate.
            VIEWS_TLS_KEY("key", File, Is(""));
        ] Restart;
    }
}

settings! {
    /// `tls` of a region.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ServedRegionTls in ServedRegionTls {
        /// Certificate of both ports; without one they speak plain HTTP.
        server: Option<ServerCertificate> = ServerCertificate::read[
            /// A PEM file with the certificate of the region's ports, and its issuers'; none: no TLS.
            SERVED_TLS_CERTIFICATE("certificate", File, Is(""));
            /// A PEM file with the private key of the region's certificate.
            SERVED_TLS_KEY("key", File, Is(""));
            /// A PEM file with the CA certificates that vouch for the node's callers, instead of or beside
            /// tokens; none: no caller is asked for a certificate.
            SERVED_TLS_CLIENT_CA("client_ca", File, Is(""));
        ] Restart;
    }
}
