//! Kinds of credentials, and what each proves.

use std::path::PathBuf;

use aws_lc_rs::hmac;
use nearside::access::token::TokenError;
use nearside_lab::issuer::{Issuer, encoded};
use rcgen::SanType;
use serde_json::{Value, json};

use super::super::access::{CATALOGUE, ISS, REGIONS};
use super::super::certified::Certified;
use super::expected::Who;

/// Name of the issuer's only key.
const KID: &str = "one";

/// Everything that a caller sends besides its request, and what that proves.
pub(super) struct Credential {
    pub(super) name: &'static str,
    pub(super) certificate: Option<PathBuf>,
    /// Principal of the certificate; `None` for one that counts as none.
    pub(super) holder: Option<Who>,
    lines: ByAudience<Lines>,
    /// Proof by the lines alone; `None` where no `Authorization` is among them.
    pub(super) by_lines: Option<Proof>,
}

type Lines = Vec<(&'static str, String)>;

/// One for callers of the catalogue, and one for those of a region.
struct ByAudience<T> {
    catalogue: T,
    regions: T,
}

/// Result of looking at a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Is(Who),
    /// There is none that counts.
    Nothing,
    Refused(TokenError),
    /// Its key may be one that is not known yet.
    UnknownKey,
}

impl Credential {
    /// Lines for a port of this audience.
    pub(super) fn lines(&self, audience: &str) -> &[(&'static str, String)] {
        if audience == CATALOGUE { &self.lines.catalogue } else { &self.lines.regions }
    }

    /// True if other lines than `Authorization` are among its own.
    pub(super) fn has_other_lines(&self) -> bool {
        self.lines.regions.iter().any(|(name, _)| *name != "authorization")
    }

    /// Proof at a service.
    pub(super) fn proof(&self) -> Proof {
        self.by_lines.or(self.holder.map(Proof::Is)).unwrap_or(Proof::Nothing)
    }

    /// Proof behind a sidecar, which passes lines on and no certificate.
    pub(super) fn passed_proof(&self) -> Proof {
        self.by_lines.unwrap_or(Proof::Nothing)
    }

    fn none(name: &'static str) -> Self {
        Self::sending(name, None, |_, _| Vec::new())
    }

    fn bearing(name: &'static str, proof: Proof, token: impl Fn(&str, &str) -> String) -> Self {
        Self::authorized(name, proof, |audience, other| vec![format!("Bearer {}", token(audience, other))])
    }

    /// One with these `Authorization` lines.
    fn authorized(name: &'static str, proof: Proof, lines: impl Fn(&str, &str) -> Vec<String>) -> Self {
        Self::sending(name, Some(proof), |audience, other| {
            lines(audience, other).into_iter().map(|line| ("authorization", line)).collect()
        })
    }

    fn sending(name: &'static str, by_lines: Option<Proof>, lines: impl Fn(&str, &str) -> Lines) -> Self {
        let lines = ByAudience { catalogue: lines(CATALOGUE, REGIONS), regions: lines(REGIONS, CATALOGUE) };
        Self { name, certificate: None, holder: None, lines, by_lines }
    }

    fn presenting(mut self, certificate: PathBuf, holder: Option<Who>) -> Self {
        (self.certificate, self.holder) = (Some(certificate), holder);
        self
    }
}

/// The issuer, and everything that is made by its key or for its callers.
struct Mint<'i> {
    issuer: &'i Issuer,
    certified: &'i Certified,
    now: u64,
}

impl Mint<'_> {
    /// Claims of a good token of `jira:api`.
    fn good(&self, audience: &str) -> Value {
        json!({"iss": ISS, "sub": "jira:api", "aud": audience, "iat": self.now, "exp": self.now + 1_800})
    }

    fn token(&self, audience: &str) -> String {
        self.issuer.token("jira:api", audience, self.now)
    }

    /// A good token of this subject.
    fn of(&self, name: &'static str, sub: &str, who: Who) -> Credential {
        Credential::bearing(name, Proof::Is(who), |to, _| self.issuer.token(sub, to, self.now))
    }

    /// A token with this claim instead; with `null` without it.
    fn claiming(&self, name: &'static str, why: TokenError, claim: &str, value: &Value) -> Credential {
        Credential::bearing(name, Proof::Refused(why), |to, _| self.with(to, claim, value))
    }

    fn with(&self, audience: &str, claim: &str, value: &Value) -> String {
        let mut claims = self.good(audience);
        claims[claim] = value.clone();
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.issuer.of_claims(&claims)
    }

    /// A token with this header instead.
    fn headed(&self, name: &'static str, proof: Proof, header: &str) -> Credential {
        Credential::bearing(name, proof, |to, _| self.issuer.signed(header, &self.good(to).to_string()))
    }

    fn misheaded(&self, name: &'static str, why: TokenError, header: &str) -> Credential {
        self.headed(name, Proof::Refused(why), header)
    }

    /// A token by another key of the same name, with these members of its header.
    fn forged(&self, name: &'static str, forger: &Issuer, more: &Value) -> Credential {
        let mut header = json!({"alg": "ES256", "kid": KID});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Credential::bearing(name, Proof::Refused(TokenError::Signature), |to, _| {
            forger.signed(&header.to_string(), &self.good(to).to_string())
        })
    }

    /// A token signed by what everybody can read.
    fn hmac(&self, audience: &str) -> String {
        let header = json!({"alg": "HS256", "kid": KID}).to_string();
        let claims = self.good(audience).to_string();
        let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
        let public = self.issuer.jwk()["x"].as_str().unwrap().to_owned();
        let key = hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes());
        format!("{signed}.{}", encoded(hmac::sign(&key, signed.as_bytes()).as_ref()))
    }

    fn certificate(
        &self,
        name: &'static str,
        file: &str,
        names: Vec<SanType>,
        holder: impl Into<Option<Who>>,
    ) -> Credential {
        Credential::none(name).presenting(self.certified.caller(file, names), holder.into())
    }
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

/// All kinds, of tokens by `issuer` and certificates by `certified`.
pub(super) fn all(issuer: &Issuer, certified: &Certified, now: u64) -> Vec<Credential> {
    let mint = Mint { issuer, certified, now };
    let tokens = [principals(&mint), wrong_claims(&mint), wrong_headers(&mint), wrong_signatures(&mint)];
    let others = [wrong_lines(&mint), certificates(&mint), beside_certificates(&mint)];
    tokens.into_iter().chain(others).flatten().collect()
}

/// Good tokens of everybody.
fn principals(mint: &Mint<'_>) -> Vec<Credential> {
    vec![
        mint.of("a reader's", "jira:api", Who::Jira),
        mint.of("a writer's", "writer", Who::Writer),
        mint.of("another consumer's", "other", Who::Other),
        mint.of("nobody's", "stranger", Who::Nobody),
        mint.of("an admin's", "admin", Who::Admin),
        mint.of("of a stopped consumer", "halted", Who::Nobody),
        mint.of("of a denied consumer", "barred", Who::Nobody),
        mint.of("of a denied principal", "jira:leaver", Who::Nobody),
        mint.of("of a denied admin", "retired", Who::Nobody),
        mint.of("of a name with a pattern's end", "jira:", Who::Nobody),
        mint.of("of a name in another case", "Jira:api", Who::Nobody),
    ]
}

fn wrong_claims(mint: &Mint<'_>) -> Vec<Credential> {
    let now = mint.now;
    vec![
        mint.claiming("expired", TokenError::Expired, "exp", &json!(now - 60)),
        mint.claiming("not yet", TokenError::NotYet, "nbf", &json!(now + 1_500)),
        mint.claiming("made in the future", TokenError::NotYet, "iat", &json!(now + 1_500)),
        mint.claiming("without an end", TokenError::Time, "exp", &Value::Null),
        mint.claiming("with an end in words", TokenError::Time, "exp", &json!("never")),
        mint.claiming("for a year", TokenError::Lifetime, "exp", &json!(now + 31_536_000)),
        mint.claiming("of another issuer", TokenError::Issuer, "iss", &json!("https://other.example")),
        mint.claiming("of the issuer with a slash", TokenError::Issuer, "iss", &json!(format!("{ISS}/"))),
        mint.claiming("without an issuer", TokenError::Issuer, "iss", &Value::Null),
        mint.claiming("without a subject", TokenError::Subject, "sub", &Value::Null),
        mint.claiming("with a number as subject", TokenError::Subject, "sub", &json!(1)),
        mint.claiming("with a control character", TokenError::Subject, "sub", &json!("jira:api\u{7}")),
        mint.claiming("for a foreign audience", TokenError::Audience, "aud", &json!("https://foreign.example")),
        mint.claiming("without an audience", TokenError::Audience, "aud", &Value::Null),
        Credential::bearing("for the other service", Proof::Refused(TokenError::Audience), |_, other| {
            mint.token(other)
        }),
        Credential::bearing("for both services", Proof::Refused(TokenError::Audience), |to, other| {
            mint.with(to, "aud", &json!([to, other]))
        }),
        Credential::bearing("duplicate members", Proof::Refused(TokenError::Json), |to, _| {
            let twice = format!(r#"{{"sub":"admin",{}"#, &mint.good(to).to_string()[1..]);
            mint.issuer.signed(r#"{"alg":"ES256","kid":"one"}"#, &twice)
        }),
    ]
}

fn wrong_headers(mint: &Mint<'_>) -> Vec<Credential> {
    let is_jira = Proof::Is(Who::Jira);
    vec![
        mint.misheaded("alg none", TokenError::Algorithm, r#"{"alg":"none"}"#),
        mint.misheaded("alg in another case", TokenError::Algorithm, r#"{"alg":"es256","kid":"one"}"#),
        mint.misheaded("alg of another key", TokenError::Key, r#"{"alg":"RS256","kid":"one"}"#),
        mint.misheaded("crit", TokenError::Critical, r#"{"alg":"ES256","kid":"one","crit":["exp"]}"#),
        mint.misheaded("crit of nothing", TokenError::Critical, r#"{"alg":"ES256","kid":"one","crit":[]}"#),
        mint.misheaded("unknown typ", TokenError::Type, r#"{"alg":"ES256","kid":"one","typ":"id+jwt"}"#),
        mint.misheaded("duplicate kid", TokenError::Json, r#"{"alg":"ES256","kid":"two","kid":"one"}"#),
        mint.misheaded("a number as kid", TokenError::KeyId, r#"{"alg":"ES256","kid":1}"#),
        mint.headed("foreign kid", Proof::UnknownKey, r#"{"alg":"ES256","kid":"../one"}"#),
        // Each says who asks, since the issuer has one key, and what else is there is ignored.
        mint.headed("without kid", is_jira, r#"{"alg":"ES256"}"#),
        mint.headed("jku of nobody's", is_jira, r#"{"alg":"ES256","kid":"one","jku":"https://127.0.0.1:1/"}"#),
        mint.headed("typ at+jwt", is_jira, r#"{"alg":"ES256","kid":"one","typ":"application/AT+jwt"}"#),
    ]
}

/// Tokens by another key, which several bring along, and pieces of tokens.
fn wrong_signatures(mint: &Mint<'_>) -> Vec<Credential> {
    let (forger, malformed) = (Issuer::new(ISS, KID), Proof::Refused(TokenError::Malformed));
    vec![
        mint.forged("forged", &forger, &json!({})),
        mint.forged("forged, with jwk", &forger, &json!({"jwk": forger.jwk()})),
        mint.forged("forged, with jku", &forger, &json!({"jku": "https://127.0.0.1:1/keys"})),
        mint.forged("forged, with x5c", &forger, &json!({"x5c": ["MAA="], "x5u": "https://127.0.0.1:1/"})),
        Credential::bearing("HMAC with the public key", Proof::Refused(TokenError::Algorithm), |to, _| mint.hmac(to)),
        Credential::bearing("an empty signature", Proof::Refused(TokenError::Signature), |to, _| {
            format!("{}.", unsigned(&mint.token(to)))
        }),
        Credential::bearing("two parts", malformed, |to, _| unsigned(&mint.token(to)).to_owned()),
        Credential::bearing("five parts", malformed, |to, _| format!("{}.a.b", mint.token(to))),
        Credential::bearing("padded", malformed, |to, _| mint.token(to).replacen('.', "=.", 1)),
        Credential::bearing("9 KiB", Proof::Refused(TokenError::Long), |to, _| {
            format!("{}{}", mint.token(to), "A".repeat(9 << 10))
        }),
        Credential::bearing("opaque", malformed, |_, _| "opaque".to_owned()),
    ]
}

/// Header and claims.
fn unsigned(token: &str) -> &str {
    token.rsplit_once('.').unwrap().0
}

fn wrong_lines(mint: &Mint<'_>) -> Vec<Credential> {
    const BASIC: &str = "Basic amlyYTphcGk=";
    let (nothing, malformed) = (Proof::Nothing, Proof::Refused(TokenError::Malformed));
    vec![
        Credential::none("none"),
        Credential::sending("a proxy's headers", None, |to, _| {
            vec![
                ("x-amzn-oidc-data", mint.token(to)),
                ("x-forwarded-client-cert", "URI=spiffe://corp/jira/api".to_owned()),
                ("x-amzn-mtls-clientcert-subject", "CN=writer.example".to_owned()),
                ("cookie", format!("access_token={}", mint.token(to))),
            ]
        }),
        Credential::authorized("empty bearer", nothing, |_, _| vec!["Bearer ".to_owned()]),
        Credential::authorized("Basic", nothing, |_, _| vec![BASIC.to_owned()]),
        Credential::authorized("a token without its scheme", nothing, |to, _| vec![mint.token(to)]),
        Credential::authorized("two lines", nothing, |to, _| vec![format!("Bearer {}", mint.token(to)); 2]),
        Credential::authorized("Basic beside it", nothing, |to, _| {
            vec![BASIC.to_owned(), format!("Bearer {}", mint.token(to))]
        }),
        Credential::authorized("two in one line", malformed, |to, _| {
            vec![format!("Bearer {0}, Bearer {0}", mint.token(to))]
        }),
        Credential::authorized("bearer in lower case", Proof::Is(Who::Jira), |to, _| {
            vec![format!("bearer {}", mint.token(to))]
        }),
    ]
}

fn certificates(mint: &Mint<'_>) -> Vec<Credential> {
    const JIRA: &str = "spiffe://corp/jira/api";
    const WIKI: &str = "spiffe://corp/wiki/api";
    let old = mint.certified.caller_until(2020, "old.pem", vec![uri(JIRA)]);
    let (other, foreign) = (Certified::new(), mint.certified.path("foreign.pem"));
    std::fs::copy(other.caller("foreign.pem", vec![uri(JIRA)]), &foreign).unwrap();
    vec![
        mint.certificate("SPIFFE", "jira.pem", vec![uri(JIRA)], Who::Jira),
        mint.certificate("SPIFFE of nobody", "nobody.pem", vec![uri(WIKI)], Who::Nobody),
        mint.certificate("SPIFFE beyond the pattern", "x.pem", vec![uri("spiffe://corp/jirax/api")], Who::Nobody),
        mint.certificate("SPIFFE with dots", "dots.pem", vec![uri("spiffe://corp/wiki/../jira/api")], None),
        mint.certificate("two SPIFFE IDs", "two.pem", vec![uri(JIRA), uri(WIKI)], None),
        mint.certificate("denied SPIFFE", "leaver.pem", vec![uri("spiffe://corp/jira/leaver")], Who::Nobody),
        mint.certificate("DNS", "dns.pem", vec![dns("Writer.example")], Who::Writer),
        mint.certificate("two DNS names", "names.pem", vec![dns("writer.example"), dns("b.example")], None),
        mint.certificate("a wildcard", "wild.pem", vec![dns("*.example")], None),
        mint.certificate("a common name alone", "common.pem", Vec::new(), None),
        Credential::none("SPIFFE of a foreign CA").presenting(foreign, None),
        Credential::none("expired SPIFFE").presenting(old, None),
    ]
}

fn beside_certificates(mint: &Mint<'_>) -> Vec<Credential> {
    let (jira, malformed) = (mint.certified.path("jira.pem"), Proof::Refused(TokenError::Malformed));
    let all = [
        mint.of("a token beside a certificate", "writer", Who::Writer),
        mint.of("nobody's token beside a certificate", "stranger", Who::Nobody),
        Credential::bearing("a bad token beside a certificate", malformed, |_, _| "opaque".to_owned()),
        Credential::authorized("Basic beside a certificate", Proof::Nothing, |_, _| vec!["Basic x".to_owned()]),
    ];
    all.into_iter().map(|credential| credential.presenting(jira.clone(), Some(Who::Jira))).collect()
}
