//! The claims of a minted token that are shown to operators. They are the sidecar's own and are not
//! verified: regions do that.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Claims of a JWT, or the name of AWS keys; none for a token of another form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pub iss: Option<String>,
    pub sub: Option<String>,
    pub aud: Vec<String>,
    /// Name of the AWS keys that sign, where keys do.
    pub key_id: Option<String>,
    /// Seconds since the epoch.
    pub iat: Option<u64>,
    pub exp: Option<u64>,
}

/// Longest claim that is shown, in characters.
const SHOWN: usize = 200;

impl Claims {
    /// The claims of `token`.
    pub(super) fn of(token: &str) -> Self {
        Self::read(token).unwrap_or_default()
    }

    fn read(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let aud = match claims.get("aud") {
            Some(Value::String(one)) => vec![cut(one)],
            Some(Value::Array(listed)) => listed.iter().filter_map(Value::as_str).take(8).map(cut).collect(),
            _ => Vec::new(),
        };
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(cut);
        let number = |name: &str| claims.get(name).and_then(seconds);
        Some(Self { iss: text("iss"), sub: text("sub"), aud, key_id: None, iat: number("iat"), exp: number("exp") })
    }

    /// The life that it states: by the issuer's clock alone, whatever this machine's says.
    pub(super) fn life(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.exp?.checked_sub(self.iat?)?))
    }
}

/// A NumericDate, which may have a fraction.
fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
}

fn cut(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(SHOWN).collect()
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("an opaque token, which shows no claims");
        }
        let exp = self.exp.map(|exp| std::time::UNIX_EPOCH + Duration::from_secs(exp.min(u64::from(u32::MAX))));
        let exp = exp.map_or("none".to_owned(), |exp| humantime::format_rfc3339_seconds(exp).to_string());
        if let Some(key_id) = &self.key_id {
            return write!(f, "requests are signed with the AWS keys {key_id}, exp {exp}");
        }
        let [iss, sub] = [&self.iss, &self.sub].map(|claim| claim.as_deref().unwrap_or("none"));
        let aud = if self.aud.is_empty() { "none".to_owned() } else { self.aud.join(" ") };
        write!(f, "iss {iss}, sub {sub}, aud {aud}, exp {exp}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lab::issuer::Issuer;

    #[test]
    fn claims_are_shown_without_token() {
        let issuer = Issuer::new("https://issuer.example", "one");
        let token = issuer.token("jira", "regions", 1_800_000_000);
        let claims = Claims::of(&token);
        assert_eq!(claims.life(), Some(Duration::from_mins(10)));
        let shown = claims.to_string();
        assert_eq!(shown, "iss https://issuer.example, sub jira, aud regions, exp 2027-01-15T08:10:00Z");
        assert!(!token.split('.').any(|part| shown.contains(part)));
    }

    #[test]
    fn other_tokens_show_no_claims() {
        let four_parts = Issuer::new("i", "k").token("s", "a", 1_800_000_000) + ".e30";
        for token in ["opaque", "a.b.c", "a.b", &four_parts] {
            assert_eq!(Claims::of(token), Claims::default(), "{token}");
        }
        let backwards = Issuer::new("i", "k").of_claims(&json!({"iat": 20, "exp": 10, "aud": ["a", "b"]}));
        let claims = Claims::of(&backwards);
        assert_eq!((claims.life(), claims.aud), (None, vec!["a".to_owned(), "b".to_owned()]));
    }
}
