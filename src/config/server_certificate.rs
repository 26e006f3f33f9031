//! The certificate of a service's ports.

use std::path::PathBuf;

use super::scope::{Collector, SettingScope};
use super::settings::Setting;
use super::table::Rows;

/// `tls.certificate` and `tls.key` of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The certificate and those it was issued by.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The settings that name them.
    pub(crate) settings: Rows<2>,
}

impl ServerCertificate {
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, settings: Rows<2>) -> Option<Self> {
        let [certificate, key] = settings.map(|setting: &'static Setting| scope.get::<Option<_>>(collector, setting));
        certificate.zip(key).map(|(certificate, key)| Self { certificate, key, settings })
    }
}
