//! Patterns of principals: written out, or with a `*` for the rest of a name.

use std::collections::HashMap;
use std::fmt;

use super::principal::Principal;
use crate::model::identities::{IDENTITY_BYTES, is_dns_name, is_spiffe_segment, is_unprintable, spiffe_parts};

/// Some principals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    Exact(Principal),
    /// All whose name begins so.
    Prefix(Principal),
}

/// Why a text names no principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("it is empty or longer than 512 bytes; write the name")]
    Size,
    #[error("it has control characters; write the name without them")]
    Control,
    #[error("a `*` stands only at the end, behind `:` or `/`; write the name out")]
    Star,
    #[error("it is no SPIFFE ID; write `spiffe://trust-domain/path`, without escapes, dots or empty segments")]
    Spiffe,
    #[error("it is no DNS name in lower case, or it is an address; write it as in the certificate")]
    Dns,
}

/// `iss` and `sub` of tokens.
///
/// # Errors
/// [`PatternError`].
pub fn of_tokens(iss: &str, sub: &str) -> Result<Pattern, PatternError> {
    sound(iss)?;
    let (name, is_prefix) = starred(sub)?;
    Ok(made(Principal::token(iss, name), is_prefix))
}

/// A SPIFFE ID (SPIFFE-ID, section 2): a trust domain in lower case, and a path whose segments hold
/// letters, digits, `.`, `-` and `_`.
///
/// # Errors
/// [`PatternError`].
pub fn of_spiffe(id: &str) -> Result<Pattern, PatternError> {
    let (name, is_prefix) = starred(id)?;
    let (_, path) = spiffe_parts(name).ok_or(PatternError::Spiffe)?;
    // Behind a star's `/` nothing follows, and all of a trust domain has no segments.
    let segments = if is_prefix { path.strip_suffix('/').unwrap_or(path) } else { path };
    let is_path = (is_prefix && path.is_empty()) || segments.split('/').all(is_spiffe_segment);
    if is_path { Ok(made(Principal::Spiffe(name.into()), is_prefix)) } else { Err(PatternError::Spiffe) }
}

/// A DNS name, written out.
///
/// # Errors
/// [`PatternError`].
pub fn of_dns(name: &str) -> Result<Pattern, PatternError> {
    sound(name)?;
    if is_dns_name(name) { Ok(Pattern::Exact(Principal::Dns(name.into()))) } else { Err(PatternError::Dns) }
}

const fn made(principal: Principal, is_prefix: bool) -> Pattern {
    if is_prefix { Pattern::Prefix(principal) } else { Pattern::Exact(principal) }
}

fn sound(text: &str) -> Result<(), PatternError> {
    match text {
        _ if text.is_empty() || text.len() > IDENTITY_BYTES => Err(PatternError::Size),
        _ if text.chars().any(is_unprintable) => Err(PatternError::Control),
        _ if text.contains('*') => Err(PatternError::Star),
        _ => Ok(()),
    }
}

/// The name without its star, and whether it had one.
fn starred(text: &str) -> Result<(&str, bool), PatternError> {
    let Some(name) = text.strip_suffix('*') else {
        sound(text)?;
        return Ok((text, false));
    };
    if !name.ends_with([':', '/']) {
        return Err(PatternError::Star);
    }
    sound(name)?;
    Ok((name, true))
}

/// Beginning of the subjects of a Kubernetes cluster's service accounts; the namespace follows.
const SERVICE_ACCOUNTS: &str = "system:serviceaccount:";

impl Pattern {
    /// True if it covers all pods of a Kubernetes cluster.
    #[must_use]
    pub fn covers_cluster(&self) -> bool {
        matches!(self, Self::Prefix(Principal::Token { sub, .. }) if SERVICE_ACCOUNTS.starts_with(&**sub))
    }

    /// True if every principal of `other` is one of its own. `other`'s name continues its own.
    fn covers(&self, other: &Self) -> bool {
        let is_longer = split(other.principal()).1.len() > split(self.principal()).1.len();
        match (self, other) {
            (Self::Prefix(_), Self::Prefix(_)) => true,
            // A prefix that is all of the name leaves nothing for the star.
            (Self::Prefix(_), Self::Exact(_)) => is_longer,
            (Self::Exact(_), Self::Exact(_)) => !is_longer,
            (Self::Exact(_), Self::Prefix(_)) => false,
        }
    }

    const fn principal(&self) -> &Principal {
        match self {
            Self::Exact(principal) | Self::Prefix(principal) => principal,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if matches!(self, Self::Prefix(_)) { "*" } else { "" };
        match self.principal() {
            Principal::Token { iss, sub } => write!(f, "{sub}{star} of {iss}"),
            other => write!(f, "{other}{star}"),
        }
    }
}

/// Names that are compared with each other, and the name among them.
fn split(principal: &Principal) -> (&str, &str) {
    match principal {
        Principal::Token { iss, sub } => (iss, sub),
        // No issuer is called so: control characters are refused.
        Principal::Spiffe(name) => ("\0spiffe", name),
        Principal::Dns(name) => ("\0dns", name),
    }
}

/// True if the name of `other` begins with that of `one`, in the same family.
fn continues(one: &Pattern, other: &Pattern) -> bool {
    let ((family, name), (of, longer)) = (split(one.principal()), split(other.principal()));
    family == of && longer.starts_with(name)
}

/// Overlaps of patterns that are listed.
pub const OVERLAPS: usize = 100;

/// Owners of patterns, found by a principal. Patterns of different owners do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners<T> {
    exact: HashMap<Principal, T>,
    /// Prefixes of each family, sorted: of those before a name, the last that is its prefix is the
    /// only one.
    prefixes: HashMap<String, Vec<(String, T)>>,
}

impl<T: Copy + Eq> Owners<T> {
    /// Collects the patterns.
    ///
    /// # Errors
    /// The positions of each two patterns of different owners that cover one principal, at most
    /// [`OVERLAPS`].
    pub fn new(patterns: &[(Pattern, T)]) -> Result<Self, Vec<(usize, usize)>> {
        let mut sorted: Vec<usize> = (0..patterns.len()).collect();
        // Sorted by name, what a prefix covers comes right behind it.
        sorted.sort_by_key(|at| {
            let pattern = &patterns[*at].0;
            (split(pattern.principal()), !matches!(pattern, Pattern::Prefix(_)))
        });
        let mut owners = Self { exact: HashMap::new(), prefixes: HashMap::new() };
        let (mut open, mut overlaps): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        for at in sorted {
            let (pattern, owner) = &patterns[at];
            while open.last().is_some_and(|covering| !continues(&patterns[*covering].0, pattern)) {
                open.pop();
            }
            let covering: Vec<usize> =
                open.iter().copied().filter(|covering| patterns[*covering].0.covers(pattern)).collect();
            overlaps.extend(
                covering.iter().filter(|covering| patterns[**covering].1 != *owner).map(|covering| (*covering, at)),
            );
            if overlaps.len() >= OVERLAPS {
                overlaps.truncate(OVERLAPS);
                return Err(overlaps);
            }
            let (family, name) = split(pattern.principal());
            match pattern {
                Pattern::Prefix(_) => {
                    open.push(at);
                    if covering.is_empty() {
                        owners.prefixes.entry(family.to_owned()).or_default().push((name.to_owned(), *owner));
                    }
                }
                // Twice the same stand side by side: the first stays open for the others.
                Pattern::Exact(principal) if covering.is_empty() => {
                    open.push(at);
                    owners.exact.insert(principal.clone(), *owner);
                }
                Pattern::Exact(_) => {}
            }
        }
        if overlaps.is_empty() { Ok(owners) } else { Err(overlaps) }
    }

    /// Owner of the pattern that covers this principal.
    #[must_use]
    pub fn of(&self, principal: &Principal) -> Option<T> {
        if let Some(owner) = self.exact.get(principal) {
            return Some(*owner);
        }
        let (family, name) = split(principal);
        let prefixes = self.prefixes.get(family)?;
        let behind = prefixes.partition_point(|(prefix, _)| prefix.as_str() <= name);
        let (prefix, owner) = prefixes.get(behind.checked_sub(1)?)?;
        // A prefix that is all of the name leaves nothing for the star.
        (name.len() > prefix.len() && name.starts_with(prefix.as_str())).then_some(*owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISS: &str = "https://issuer.example";

    fn tokens(sub: &str) -> Pattern {
        of_tokens(ISS, sub).unwrap()
    }

    #[test]
    fn star_ends_at_separator() {
        for sub in ["system:serviceaccount:jira:*", "team/*", "a:*"] {
            assert!(matches!(tokens(sub), Pattern::Prefix(_)), "{sub}");
        }
        for sub in ["*", "jira*", "a:*:b", "a*b:", "**", "a:**"] {
            assert_eq!(of_tokens(ISS, sub), Err(PatternError::Star), "{sub}");
        }
        assert_eq!(of_tokens("https://*", "a"), Err(PatternError::Star));
        assert_eq!(of_tokens(ISS, ""), Err(PatternError::Size));
        assert_eq!(of_tokens(ISS, "a\n"), Err(PatternError::Control));
        assert_eq!(of_tokens(ISS, "a\u{202e}b"), Err(PatternError::Control));
    }

    #[test]
    fn spiffe_ids_are_canonical() {
        for id in ["spiffe://corp/jira", "spiffe://corp/jira/*", "spiffe://corp/*", "spiffe://a.b-c_d/X.y/-_"] {
            assert!(of_spiffe(id).is_ok(), "{id}");
        }
        for id in [
            "spiffe://corp",
            "spiffe://corp/",
            "spiffe://Corp/x",
            "spiffe://corp:443/x",
            "spiffe://corp//x",
            "spiffe://corp//*",
            "spiffe://corp/x//*",
            "spiffe://corp/x//y",
            "spiffe://corp/./x",
            "spiffe://corp/../x",
            "spiffe://corp/%78",
            "spiffe://corp/x?y",
            "spiffe://corp/x#y",
            "https://corp/x",
            "spiffe://user@corp/x",
        ] {
            assert_eq!(of_spiffe(id), Err(PatternError::Spiffe), "{id}");
        }
        assert!(of_dns("a.example").is_ok() && of_dns("1.2.3.example").is_ok());
        for name in ["A.example", "a..b", "*.example", "a.example.", "1.2.3.4", "4", &"a".repeat(64)] {
            assert!(of_dns(name).is_err(), "{name}");
        }
    }

    #[test]
    fn overlapping_patterns_are_refused() {
        for (one, other) in [("a:*", "a:b"), ("a:*", "a:b:*"), ("a:b", "a:b"), ("a:*", "a:*")] {
            let patterns = [(tokens(one), 1), (tokens(other), 2)];
            assert!(Owners::new(&patterns).is_err(), "{one} {other}");
            let reversed = [(tokens(other), 1), (tokens(one), 2)];
            assert!(Owners::new(&reversed).is_err(), "{other} {one}");
            let of_one = [(tokens(one), 1), (tokens(other), 1)];
            assert!(Owners::new(&of_one).is_ok(), "{one} {other}");
        }
        let elsewhere = of_tokens("https://other.example", "a:b").unwrap();
        assert!(Owners::new(&[(tokens("a:*"), 1), (elsewhere, 2), (tokens("b:*"), 3)]).is_ok());
    }

    #[test]
    fn every_overlap_is_listed() {
        let patterns: Vec<(Pattern, usize)> = ["a:*", "b", "a:b:*", "a:b:c", "b", "ab", "a:", "b"]
            .iter()
            .enumerate()
            .map(|(owner, sub)| (tokens(sub), owner))
            .collect();
        let mut overlaps = Owners::new(&patterns).unwrap_err();
        overlaps.sort_unstable();
        assert_eq!(overlaps, [(0, 2), (0, 3), (1, 4), (1, 7), (2, 3)]);
        let many: Vec<(Pattern, usize)> = (0..200).map(|owner| (tokens("a"), owner)).collect();
        assert_eq!(Owners::new(&many).unwrap_err().len(), OVERLAPS);
    }

    #[test]
    fn cluster_wide_patterns_are_found() {
        for (sub, is_wide) in [
            ("system:serviceaccount:*", true),
            ("system:*", true),
            ("system:serviceaccount:jira:*", false),
            ("system:serviceaccounts:*", false),
            ("repo:*", false),
        ] {
            assert_eq!(tokens(sub).covers_cluster(), is_wide, "{sub}");
        }
    }

    #[test]
    fn principal_finds_its_only_owner() {
        let patterns = [
            (tokens("a:*"), 1),
            (tokens("ab"), 2),
            (tokens("b:x:*"), 3),
            (tokens("b:y"), 4),
            (of_spiffe("spiffe://corp/jira/*").unwrap(), 5),
            (of_dns("a.example").unwrap(), 6),
        ];
        let owners = Owners::new(&patterns).unwrap();
        for (principal, owner) in [
            (Principal::token(ISS, "a:b"), Some(1)),
            (Principal::token(ISS, "a:"), None),
            (Principal::token(ISS, "a"), None),
            (Principal::token(ISS, "ab"), Some(2)),
            (Principal::token(ISS, "b:x:1"), Some(3)),
            (Principal::token(ISS, "b:y"), Some(4)),
            (Principal::token(ISS, "b:z"), None),
            (Principal::token("https://other.example", "a:b"), None),
            (Principal::Spiffe("spiffe://corp/jira/pod".into()), Some(5)),
            (Principal::Spiffe("spiffe://corp/jirax".into()), None),
            (Principal::Dns("a.example".into()), Some(6)),
            (Principal::Dns("b.example".into()), None),
        ] {
            assert_eq!(owners.of(&principal), owner, "{principal}");
        }
    }
}
