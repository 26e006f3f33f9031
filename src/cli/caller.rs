//! Who asks a service on behalf of this command, and whom it believes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::Method;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use url::Url;

use crate::cli::error::CommandError;
use crate::config::limits::PEM_BYTES;
use crate::config::read_regular;
use crate::http::client::incoming::chain;
use crate::http::client::outgoing;
use crate::http::token;

/// Way to the catalogue.
#[derive(Clone, Debug, Args)]
pub struct CatalogueReach {
    /// The catalogue's address
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:8740")]
    pub catalogue: Url,
    /// A file with a token: an admin's (`[[access.admin]]`), for `grants report` an operator's, for `history` that of
    /// a writer
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A PEM file with a client certificate, instead of a token
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token_file")]
    pub certificate: Option<PathBuf>,
    /// A PEM file with the certificate's private key [default: the certificate's file]
    #[arg(long, global = true, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// A PEM file with the CA certificates that the catalogue's is verified by [default: the machine's]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Longest wait for the catalogue's answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Way to the admin port of a service.
#[derive(Clone, Debug, Args)]
pub struct OperatorReach {
    /// The catalogue's admin port
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8741")]
    pub admin: Url,
    /// A file with an operator's token; where callers are not checked, none is needed on the same machine
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A PEM file with the CA certificates that the service's is verified by [default: the machine's]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Longest wait for the answer: of a million records it takes minutes
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Credentials of the command, and the CAs by which it verifies services.
#[derive(Clone)]
pub(super) struct Caller {
    token: Option<String>,
    certificate: Option<reqwest::Identity>,
    /// CA certificates that are trusted instead of the machine's.
    authorities: Option<Vec<reqwest::Certificate>>,
    within: Duration,
}

impl Caller {
    /// Reads the files that the arguments name.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub(super) fn of(reach: &CatalogueReach) -> Result<Self, CommandError> {
        let token = token(reach.token_file.as_deref())?;
        let certificate = reach.certificate.as_deref();
        let certificate = certificate.map(|file| identity(file, reach.key.as_deref())).transpose()?;
        let authorities = reach.ca_file.as_deref().map(authorities).transpose()?;
        Ok(Self { token, certificate, authorities, within: reach.timeout })
    }

    /// Reads the files that the arguments name.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub(super) fn of_operator(reach: &OperatorReach) -> Result<Self, CommandError> {
        let authorities = reach.ca_file.as_deref().map(authorities).transpose()?;
        let token = token(reach.token_file.as_deref())?;
        Ok(Self { token, certificate: None, authorities, within: reach.timeout })
    }

    /// True if it shows a client certificate.
    pub(super) const fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// A request with the credentials.
    ///
    /// # Errors
    /// A certificate where there is no TLS, or one that no client can be made with.
    pub(super) fn request(&self, method: Method, url: Url) -> Result<reqwest::RequestBuilder, CommandError> {
        let mut builder = outgoing::builder().timeout(self.within);
        if let Some(certificate) = &self.certificate {
            if url.scheme() != "https" {
                let text = format!("--certificate is of no use at {url}: write the https address");
                return Err(CommandError::Usage(text));
            }
            builder = builder.identity(certificate.clone());
        }
        if let Some(authorities) = &self.authorities {
            builder = builder.tls_certs_only(authorities.iter().cloned());
        }
        let request = builder.build().map_err(|error| CommandError::Usage(chain(&error)))?.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }
}

fn token(file: Option<&Path>) -> Result<Option<String>, CommandError> {
    let token = token::read("--token-file", file).map_err(|error| CommandError::Usage(error.to_string()))?;
    Ok(token.map(|token| String::from_utf8_lossy(&token).into_owned()))
}

/// Says why a service does not answer, with all causes.
pub(super) fn unanswered(error: &reqwest::Error) -> String {
    let causes = chain(error);
    if causes.contains("UnknownIssuer") {
        return format!("its certificate is of no CA that is trusted here, name that with --ca-file ({causes})");
    }
    causes
}

pub(super) fn unusable(flag: &str, file: &Path, why: &str) -> CommandError {
    CommandError::Usage(format!("{flag} {}: {why}", file.display()))
}

/// The client certificate with its key, which may be in the same file.
fn identity(file: &Path, key: Option<&Path>) -> Result<reqwest::Identity, CommandError> {
    let mut text =
        read_regular(file, PEM_BYTES).map_err(|error| unusable("--certificate", file, &error.to_string()))?;
    if let Some(key) = key {
        text.push(b'\n');
        text.extend(read_regular(key, PEM_BYTES).map_err(|error| unusable("--key", key, &error.to_string()))?);
        if is_of_another(&text) {
            let why = format!("it is not the key of --certificate {}", file.display());
            return Err(unusable("--key", key, &why));
        }
    }
    reqwest::Identity::from_pem(&text).map_err(|_| {
        let why = "no certificate with its private key, in PEM; name the key's file with --key";
        unusable("--certificate", file, why)
    })
}

/// Returns whether the private key is not the first certificate's; false where one of them cannot be read.
fn is_of_another(text: &[u8]) -> bool {
    let read = CertificateDer::from_pem_slice(text).ok().zip(PrivateKeyDer::from_pem_slice(text).ok());
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    read.is_some_and(|(certificate, key)| {
        let paired = CertifiedKey::from_der(vec![certificate], key, &provider);
        matches!(paired, Err(rustls::Error::InconsistentKeys(_)))
    })
}

/// The certificates of `--ca-file`.
fn authorities(file: &Path) -> Result<Vec<reqwest::Certificate>, CommandError> {
    let text = read_regular(file, PEM_BYTES).map_err(|error| unusable("--ca-file", file, &error.to_string()))?;
    let found = reqwest::Certificate::from_pem_bundle(&text)
        .map_err(|error| unusable("--ca-file", file, &error.to_string()))?;
    if found.is_empty() { Err(unusable("--ca-file", file, "it holds no certificate in PEM")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_another_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| {
            let made = rcgen::generate_simple_self_signed([format!("{name}.example")]).unwrap();
            let [certificate, key] = ["pem", "key"].map(|kind| directory.path().join(format!("{name}.{kind}")));
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            (certificate, key)
        });
        assert!(identity(&own.0, Some(&own.1)).is_ok());
        let said = identity(&own.0, Some(&other.1)).unwrap_err().to_string();
        assert!(
            said.contains("other.key: it is not the key of --certificate") && said.ends_with("own.pem"),
            "{said}"
        );
    }
}
