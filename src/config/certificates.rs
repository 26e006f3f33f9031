//! Reads the PEM files of a region's or a service's `tls`, both for the checks and for the connections
//! that use them.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::file::content;
use super::schema;
use super::settings::Setting;
use super::{ClientCertificate, RegionTls, ServerCertificate};
use crate::config::error::ConfigProblem;
use crate::config::limits;
use crate::model::time::Wall;

/// Warnings, each with its setting.
type Warnings = Vec<(&'static Setting, String)>;

/// The content of the files that a region's `tls` names.
pub(crate) struct Certificates {
    /// `None` trusts whom the platform trusts.
    pub roots: Option<rustls::RootCertStore>,
    /// The sidecar's certificate with those that it was issued by, and the key.
    pub client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// Equal for equal content.
    pub digest: [u8; 32],
    /// Warnings, each with its setting.
    pub warnings: Warnings,
}

/// The content of the files that a service's `tls` names.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    pub certified: Arc<CertifiedKey>,
    /// The end of the certificate, or of one of its issuers if that is earlier.
    pub ends: Wall,
    /// Warnings, each with its setting.
    pub warnings: Warnings,
}

/// A file that cannot be used, for the operator to fix.
#[derive(Debug)]
pub(crate) struct UnusableFile {
    /// The setting that names the file.
    pub setting: &'static Setting,
    pub wrong: ConfigProblem,
}

/// Reads the files that `tls` names; `now` tells whether a certificate has expired.
///
/// # Errors
/// The first file that cannot be read, or does not hold what it should.
pub(crate) fn read(tls: &RegionTls, now: Wall) -> Result<Certificates, UnusableFile> {
    let mut read = Certificates { roots: None, client: None, digest: [0; 32], warnings: Vec::new() };
    let mut sum = digest::Context::new(&digest::SHA256);
    if let Some(file) = &tls.ca_file {
        let setting = &schema::TLS_CA_FILE;
        let (roots, warnings) = authorities(setting, file, now, &mut sum)?;
        read.roots = Some(roots);
        read.warnings.extend(warnings);
    }
    sum.update(&[u8::from(tls.ca_file.is_some())]);
    if let Some(ClientCertificate { cert, key }) = &tls.client {
        let setting = &schema::TLS_CLIENT_CERT;
        let chain = certificates(setting, cert, &bytes(setting, cert, &mut sum)?)?;
        read.warnings.extend(out_of_date(setting, cert, &chain, now));
        let (found, _) = private_key(&schema::TLS_CLIENT_KEY, key, cert, chain.clone(), &mut sum)?;
        read.client = Some((chain, found));
    }
    read.digest.copy_from_slice(sum.finish().as_ref());
    Ok(read)
}

/// Reads the files that a service's `tls` names; `now` tells whether a certificate has expired.
///
/// # Errors
/// The first file that cannot be read, or does not hold what it should; a key that belongs to another
/// certificate.
pub(crate) fn read_server(files: &ServerCertificate, now: Wall) -> Result<ServerFiles, UnusableFile> {
    let ServerCertificate { certificate, key, settings: [of_certificate, of_key], .. } = files;
    let mut sum = digest::Context::new(&digest::SHA256);
    let chain = certificates(of_certificate, certificate, &bytes(of_certificate, certificate, &mut sum)?)?;
    let warnings = out_of_date(of_certificate, certificate, &chain, now);
    let ends = earliest_end(&chain);
    let (_, certified) = private_key(of_key, key, certificate, chain, &mut sum)?;
    Ok(ServerFiles { certified: Arc::new(certified), ends, warnings })
}

/// Reads the CAs that vouch for a service's callers, if the settings name any.
///
/// # Errors
/// The file cannot be read, or does not hold certificates of CAs.
pub(crate) fn read_client_ca(
    files: &ServerCertificate,
    now: Wall,
) -> Result<Option<(rustls::RootCertStore, Warnings)>, UnusableFile> {
    let (Some(file), Some(setting)) = (&files.client_ca, files.of_client_ca) else { return Ok(None) };
    authorities(setting, file, now, &mut digest::Context::new(&digest::SHA256)).map(Some)
}

/// Checks a file with CAs that are trusted for a server.
///
/// # Errors
/// The file cannot be read, or does not hold certificates of CAs.
pub(crate) fn read_authorities(setting: &'static Setting, file: &Path, now: Wall) -> Result<Warnings, UnusableFile> {
    authorities(setting, file, now, &mut digest::Context::new(&digest::SHA256)).map(|(_, warnings)| warnings)
}

/// The CAs in a file.
fn authorities(
    setting: &'static Setting,
    file: &Path,
    now: Wall,
    sum: &mut digest::Context,
) -> Result<(rustls::RootCertStore, Warnings), UnusableFile> {
    let certificates = certificates(setting, file, &bytes(setting, file, sum)?)?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| {
            let what = format!("{} holds a certificate that cannot be trusted as a CA: {error}", file.display());
            UnusableFile {
                setting,
                wrong: ConfigProblem::new(what, "write the CA's own certificates into it, in PEM"),
            }
        })?;
    }
    Ok((roots, out_of_date(setting, file, &certificates, now)))
}

/// The time at which the first of these certificates ends.
fn earliest_end(chain: &[CertificateDer<'static>]) -> Wall {
    let ends = chain.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0))
    });
    Wall::from_millis(ends.min().unwrap_or(0).saturating_mul(1_000))
}

/// A file's content, which is also added to `sum`.
fn bytes(setting: &'static Setting, file: &Path, sum: &mut digest::Context) -> Result<Vec<u8>, UnusableFile> {
    let shown = file.display().to_string();
    let bytes = content(file, &shown, limits::PEM_BYTES, "name a PEM file")
        .map_err(|wrong| UnusableFile { setting, wrong })?;
    sum.update(&(bytes.len() as u64).to_le_bytes());
    sum.update(&bytes);
    Ok(bytes)
}

fn certificates(
    setting: &'static Setting,
    file: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, UnusableFile> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(bytes).collect();
    let what = match found {
        Err(error) => format!("{} is not PEM: {error}", file.display()),
        Ok(found) if found.is_empty() => format!("{} holds no certificate", file.display()),
        Ok(found) if found.iter().any(|der| X509Certificate::from_der(der).is_err()) => {
            format!("{} holds a certificate that cannot be read", file.display())
        }
        Ok(found) => return Ok(found),
    };
    let suggestion = "write certificates into it, in PEM (-----BEGIN CERTIFICATE-----)";
    Err(UnusableFile { setting, wrong: ConfigProblem::new(what, suggestion) })
}

/// The key in the file `key`, which must belong to the first certificate of `chain`, read from
/// `cert`; and both, ready to sign.
fn private_key(
    setting: &'static Setting,
    key: &Path,
    cert: &Path,
    chain: Vec<CertificateDer<'static>>,
    sum: &mut digest::Context,
) -> Result<(PrivateKeyDer<'static>, CertifiedKey), UnusableFile> {
    let found = PrivateKeyDer::from_pem_slice(&bytes(setting, key, sum)?).map_err(|error| {
        let what = match error {
            pem::Error::NoItemsFound => format!("{} holds no private key", key.display()),
            error => format!("{} is not PEM: {error}", key.display()),
        };
        let suggestion = "write the private key into it, in PEM and without a passphrase";
        UnusableFile { setting, wrong: ConfigProblem::new(what, suggestion) }
    })?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let wrong = match CertifiedKey::from_der(chain, found.clone_key(), &provider) {
        Ok(certified) => return Ok((found, certified)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let what = format!("{} is not the key of the certificate in {}", key.display(), cert.display());
            ConfigProblem::new(what, "name the key that belongs to the certificate")
        }
        Err(error) => {
            let what = format!("{} holds a key that cannot be used: {error}", key.display());
            ConfigProblem::new(what, "use an RSA, ECDSA or Ed25519 key")
        }
    };
    Err(UnusableFile { setting, wrong })
}

/// A sentence for each certificate that is not valid at `now`.
fn out_of_date(
    setting: &'static Setting,
    file: &Path,
    certificates: &[CertificateDer<'static>],
    now: Wall,
) -> Warnings {
    let now = i64::try_from(now.as_millis() / 1000).unwrap_or(i64::MAX);
    let sentences = certificates.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let (from, to) = (certificate.validity().not_before, certificate.validity().not_after);
        let text = match now {
            now if now > to.timestamp() => format!("expired on {to}; renew it"),
            now if now < from.timestamp() => format!("is not valid before {from}"),
            _ => return None,
        };
        Some((setting, format!("a certificate in {} {text}", file.display())))
    });
    sentences.collect()
}

#[cfg(test)]
mod tests;
