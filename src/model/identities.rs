//! Forms of the names by which certificates say who their holder is.

/// Longest name of a principal, in bytes.
pub const IDENTITY_BYTES: usize = 512;

/// True for a SPIFFE ID (SPIFFE-ID, section 2) that is written out: a trust domain in lower case, and a
/// path whose segments hold letters, digits, `.`, `-` and `_`.
#[must_use]
pub fn is_spiffe_id(id: &str) -> bool {
    id.len() <= IDENTITY_BYTES && spiffe_parts(id).is_some_and(|(_, path)| path.split('/').all(is_spiffe_segment))
}

/// Trust domain and path behind its `/`; `None` without a domain in the form that SPIFFE wants.
#[must_use]
pub fn spiffe_parts(id: &str) -> Option<(&str, &str)> {
    let (domain, path) = id.strip_prefix("spiffe://")?.split_once('/')?;
    let is_domain = !domain.is_empty()
        && domain.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
    is_domain.then_some((domain, path))
}

/// True for a segment of a SPIFFE ID's path.
#[must_use]
pub fn is_spiffe_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

/// True for a DNS name in lower case, of letters, digits and `-` inside labels (RFC 1123, section 2.1), that
/// is no address.
#[must_use]
pub fn is_dns_name(name: &str) -> bool {
    let is_name = name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    });
    // An address in dots, which certificates have elsewhere. No domain at the top is a number.
    let is_address = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    name.len() <= IDENTITY_BYTES && is_name && !is_address
}

/// True for a character that no name has and that changes how the text around it is shown: a control
/// character, or one of those that turn the direction of writing (Unicode's `Bidi_Control`).
#[must_use]
pub fn is_unprintable(char: char) -> bool {
    let turns =
        matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || char.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_out() {
        assert!(is_spiffe_id("spiffe://corp/jira/api") && is_dns_name("jira-1.corp.example"));
        for wrong in ["spiffe://corp", "spiffe://corp/", "spiffe://corp/a//b", "spiffe://corp/*", "spiffe://C/a", "a"]
        {
            assert!(!is_spiffe_id(wrong), "{wrong}");
        }
        for wrong in ["Jira.example", "*.example", "10.0.0.1", "a..b", "-a.b", "a-.b", "a_b.c", ""] {
            assert!(!is_dns_name(wrong), "{wrong}");
        }
    }
}
