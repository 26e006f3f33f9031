//! A certificate for services, and clients that trust its CA.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

/// A CA, and a directory with the certificate that the services present.
pub(crate) struct Certified {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Certified {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        let certified = Self { issuer: Issuer::new(params, key), directory: tempfile::tempdir().unwrap() };
        certified.write("ca.pem", &root.pem());
        let (certificate, key) = certified.pair(2030);
        certified.write("services.pem", &certificate);
        certified.write("services.key", &key);
        certified
    }

    /// A certificate of this machine that ends with this year's first day, and its key.
    pub(crate) fn pair(&self, year: i32) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path("new"), content).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// The line that a service's section needs. Only one with callers may take their certificates.
    pub(crate) fn setting(&self) -> String {
        let [certificate, key] = ["services.pem", "services.key"].map(|name| self.path(name));
        let client_ca = self.path("client-ca.pem");
        let client_ca =
            if client_ca.exists() { format!(", client_ca = \"{}\"", client_ca.display()) } else { String::new() };
        format!("tls = {{ certificate = \"{}\", key = \"{}\"{client_ca} }}\n", certificate.display(), key.display())
    }

    /// Has the services take callers' certificates by `authority`.
    pub(crate) fn vouch_by(&self, authority: &Self) {
        self.write("client-ca.pem", &std::fs::read_to_string(authority.path("ca.pem")).unwrap());
    }

    /// Writes the certificate and key of a caller with these names into one file.
    pub(crate) fn caller(&self, name: &str, names: Vec<SanType>) -> PathBuf {
        self.caller_until(2030, name, names)
    }

    /// [`Certified::caller`], with the first day of this year as its end.
    pub(crate) fn caller_until(&self, year: i32, name: &str, names: Vec<SanType>) -> PathBuf {
        let mut params = CertificateParams::new([]).unwrap();
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, "writer.example");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        self.write(name, &(certificate + &key.serialize_pem()));
        self.path(name)
    }

    /// A client that trusts the CA, and presents the certificate in this file.
    pub(crate) fn client_as(&self, file: &Path) -> reqwest::Client {
        self.builder(Some(file)).build().unwrap()
    }

    /// One that trusts the CA, and presents the certificate in this file, if there is one.
    pub(crate) fn builder(&self, file: Option<&Path>) -> reqwest::ClientBuilder {
        let root = reqwest::Certificate::from_pem(&std::fs::read(self.path("ca.pem")).unwrap()).unwrap();
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
        let identity = file.map(|file| reqwest::Identity::from_pem(&std::fs::read(file).unwrap()).unwrap());
        identity.into_iter().fold(builder, reqwest::ClientBuilder::identity)
    }

    /// A client that trusts the CA; with one connection for each request unless it may keep them.
    pub(crate) fn client(&self, keeps: bool) -> reqwest::Client {
        let builder = self.builder(None);
        let builder = if keeps { builder } else { builder.pool_max_idle_per_host(0) };
        builder.build().unwrap()
    }
}
