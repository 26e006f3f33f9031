//! Certificates that callers present, and the CAs that vouch for them.
//!
//! A handshake only proves that the caller has the certificate's key. Whether the certificate means
//! anything is asked of the CAs of the moment, at each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::http::limits::CLIENT_CHAIN_BYTES;
use crate::model::time::Wall;

/// CAs that vouch for callers; replaced when their file is.
#[derive(Debug)]
pub(in crate::http) struct ClientAuthorities(ArcSwap<Authorities>);

#[derive(Debug)]
struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Number of replacements, from 1.
    epoch: u64,
}

impl ClientAuthorities {
    pub(super) fn new(verifier: Arc<dyn ClientCertVerifier>) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(Authorities { verifier, epoch: 1 })))
    }

    pub(super) fn replace(&self, verifier: Arc<dyn ClientCertVerifier>) {
        let epoch = self.0.load().epoch + 1;
        self.0.store(Arc::new(Authorities { verifier, epoch }));
    }
}

/// Alternative names of a certificate, of the kinds that callers are known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub uris: Vec<String>,
    pub dns: Vec<String>,
}

impl AlternativeNames {
    /// Those in a certificate, in DER; `None` if it cannot be read.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let mut found = Self::default();
        let names = certificate.subject_alternative_name().ok()?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::URI(uri) => found.uris.push((*uri).to_owned()),
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                _ => {}
            }
        }
        Some(found)
    }
}

/// Certificate of a caller whose handshake proved that it has the key.
#[derive(Debug)]
pub struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    pub names: AlternativeNames,
    /// The earliest end in the chain.
    ends: Wall,
    authorities: Arc<ClientAuthorities>,
    /// The last epoch of the CAs by which it was verified, doubled, and one more if they vouch for it.
    verified: AtomicU64,
}

impl PeerCertificate {
    /// The certificate of a handshake with these CAs; `None` if nothing in it can be read.
    pub(super) fn new(chain: &[CertificateDer<'_>], authorities: &Arc<ClientAuthorities>) -> Option<Self> {
        let (leaf, _) = chain.split_first()?;
        let names = AlternativeNames::of(leaf)?;
        let ends = chain.iter().map(|der| end_of(der)).min().unwrap_or_default();
        let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
        let authorities = authorities.clone();
        Some(Self { chain, names, ends, authorities, verified: AtomicU64::new(0) })
    }

    /// True if a CA of the moment vouches for it, and it has not ended.
    #[must_use]
    pub fn holds(&self, now: Wall) -> bool {
        let authorities = self.authorities.0.load();
        let verified = self.verified.load(Ordering::Relaxed);
        let is_vouched_for =
            if verified / 2 == authorities.epoch { verified % 2 == 1 } else { self.verify(&authorities, now) };
        is_vouched_for && now < self.ends
    }

    fn verify(&self, authorities: &Authorities, now: Wall) -> bool {
        let Some((leaf, issuers)) = self.chain.split_first() else { return false };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
        match authorities.verifier.verify_client_cert(leaf, issuers, now) {
            // Clocks differ: it may be valid in a moment.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            )) => false,
            verified => {
                if let Err(error) = &verified {
                    tracing::debug!(%error, "a client certificate counts as none");
                }
                self.verified.store(authorities.epoch * 2 + u64::from(verified.is_ok()), Ordering::Relaxed);
                verified.is_ok()
            }
        }
    }
}

/// The end of a certificate; the epoch for one that cannot be read.
fn end_of(der: &CertificateDer<'_>) -> Wall {
    let ends = X509Certificate::from_der(der).map(|(_, certificate)| certificate.validity().not_after.timestamp());
    let ends = ends.ok().and_then(|seconds| u64::try_from(seconds).ok());
    Wall::from_millis(ends.unwrap_or(0).saturating_mul(1_000))
}

/// Verifier of handshakes: asks for a certificate, takes none for an answer, and believes any whose key
/// the caller has.
#[derive(Debug)]
pub(super) struct KeyHolders(pub(super) Arc<CryptoProvider>);

impl ClientCertVerifier for KeyHolders {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A hint would have to change with the CAs.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = end_entity.len() + intermediates.iter().map(|der| der.len()).sum::<usize>();
        if bytes > CLIENT_CHAIN_BYTES {
            return Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
