//! Certificates and keys as people write them: each error says what is wrong with a file and what
//! to do.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;
use crate::model::time::Clock;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    /// A CA, a certificate that it issued, its key, and another key.
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signing = KeyPair::generate().unwrap();
        files.write("ca", &authority.self_signed(&signing).unwrap().pem());
        let issuer = Issuer::from_params(&authority, &signing);
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["sidecar".to_owned()]).unwrap();
        files.write("cert", &params.signed_by(&key, &issuer).unwrap().pem());
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        files.write("old", &params.signed_by(&key, &issuer).unwrap().pem());
        files.write("key", &key.serialize_pem());
        files.write("other", &other.serialize_pem());
        files.write("text", "not PEM at all\n");
        files.write("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn ca(&self, name: &str) -> RegionTls {
        RegionTls { ca_file: Some(self.path(name)), ..Default::default() }
    }

    fn client(&self, cert: &str, key: &str) -> RegionTls {
        let client = ClientCertificate { cert: self.path(cert), key: self.path(key) };
        RegionTls { client: Some(client), ..Default::default() }
    }
}

fn now() -> Wall {
    Clock::System.wall()
}

fn wrong(tls: &RegionTls) -> (String, String) {
    let Err(UnusableFile { setting, wrong }) = read(tls, now()) else { panic!("it can be read") };
    assert!(!wrong.suggestion.is_empty());
    (setting.key.to_owned(), wrong.what)
}

#[test]
fn reads_ca_and_client_certificate() {
    let files = Files::new();
    let none = read(&RegionTls::default(), now()).unwrap();
    assert!(none.roots.is_none() && none.client.is_none());
    assert_eq!(read(&files.ca("ca"), now()).unwrap().roots.unwrap().len(), 1);
    let client = read(&files.client("cert", "key"), now()).unwrap();
    assert_eq!((client.client.unwrap().0.len(), client.warnings.len()), (1, 0));
}

#[test]
fn unusable_file_names_setting_and_remedy() {
    let files = Files::new();
    for (tls, setting, found) in [
        (files.ca("none"), "ca_file", "cannot be read"),
        (files.ca("text"), "ca_file", "holds no certificate"),
        (files.ca("key"), "ca_file", "holds no certificate"),
        (files.ca("broken"), "ca_file", "holds a certificate that cannot be read"),
        (files.client("none", "key"), "client_cert", "cannot be read"),
        (files.client("text", "key"), "client_cert", "holds no certificate"),
        (files.client("cert", "none"), "client_key", "cannot be read"),
        (files.client("cert", "cert"), "client_key", "holds no private key"),
        (files.client("cert", "other"), "client_key", "is not the key of the certificate in"),
    ] {
        let (key, what) = wrong(&tls);
        assert!(key == setting && what.contains(found), "{key}: {what}");
    }
    files.write("large", &"x".repeat(limits::PEM_BYTES as usize + 1));
    assert!(wrong(&files.ca("large")).1.contains("larger than"));
}

#[test]
fn expired_certificate_warns() {
    let files = Files::new();
    let read = read(&files.client("old", "key"), now()).unwrap();
    let [(setting, text)] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
    assert!(setting.key == "client_cert" && text.contains("expired on") && text.contains("2020"), "{text}");
}

#[test]
fn digest_distinguishes_content() {
    let files = Files::new();
    let first = digest(&files.client("cert", "key"));
    assert_eq!(first, digest(&files.client("cert", "key")));
    assert_ne!(first, digest(&files.client("old", "key")));
    assert_ne!(digest(&files.ca("ca")), digest(&RegionTls::default()));
}

fn digest(tls: &RegionTls) -> [u8; 32] {
    read(tls, now()).unwrap().digest
}
