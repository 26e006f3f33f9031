//! The certificate of a service's ports.

use std::path::PathBuf;

use super::scope::{Collector, SettingScope};
use super::settings::Setting;
use super::table::Rows;

/// `tls` of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The certificate and those it was issued by.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Certificates of the CAs that vouch for callers, which are asked for a certificate then.
    pub client_ca: Option<PathBuf>,
    /// The settings that name the certificate, the key, and the CAs where there can be any.
    pub(crate) settings: Rows<2>,
    pub(crate) of_client_ca: Option<&'static Setting>,
}

impl ServerCertificate {
    /// Reads that of a service that has callers.
    pub(super) fn read(
        collector: &mut Collector,
        scope: &SettingScope,
        [certificate, key, client_ca]: Rows<3>,
    ) -> Option<Self> {
        let pair = Self::read_pair(collector, scope, [certificate, key]);
        let found = scope.get(collector, client_ca);
        pair.map(|pair| Self { client_ca: found, of_client_ca: Some(client_ca), ..pair })
    }

    pub(super) fn read_pair(collector: &mut Collector, scope: &SettingScope, settings: Rows<2>) -> Option<Self> {
        let [certificate, key] = settings.map(|setting: &'static Setting| scope.get::<Option<_>>(collector, setting));
        let (certificate, key) = certificate.zip(key)?;
        Some(Self { certificate, key, client_ca: None, settings, of_client_ca: None })
    }
}
