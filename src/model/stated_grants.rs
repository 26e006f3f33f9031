//! Value of `X-Grants-Version`: `1764043200000; limits` in a node's answer, a version alone in a
//! sidecar's request (R22).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::names::is_name;

/// The grants by which a region's node decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedGrants {
    /// Version of the document.
    pub version: u64,
    /// The view that it decided about.
    pub view: Box<str>,
}

impl StatedGrants {
    /// Takes what a reply states out of its `headers`: it is for the sidecar, and nobody is shown it.
    /// `None` if it states nothing. What is not one version and one view is about no view: a region
    /// decided, and nobody knows what.
    pub fn take(headers: &mut HeaderMap, name: &HeaderName) -> Option<Self> {
        if !headers.contains_key(name) {
            return None;
        }
        let is_one = headers.get_all(name).iter().count() == 1;
        let stated = headers.remove(name).filter(|_| is_one);
        let read = stated.as_ref().and_then(Self::read);
        Some(read.unwrap_or_else(|| Self { version: 0, view: "".into() }))
    }

    fn read(stated: &HeaderValue) -> Option<Self> {
        let (version, view) = stated.to_str().ok()?.split_once(';')?;
        let (version, view) = (version_in(version)?, view.trim());
        is_name(view).then(|| Self { version, view: view.into() })
    }
}

/// The version that a request's header states; `None` unless it is one of digits.
#[must_use]
pub fn stated_version(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut lines = headers.get_all(name).iter();
    let stated = lines.next()?.to_str().ok()?;
    lines.next().is_none().then(|| version_in(stated))?
}

/// A version in decimal digits, without a sign; none is 0.
fn version_in(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|version| is_plain && *version > 0)
}

/// The header's value for a decision about `view` by this version.
#[must_use]
pub fn line(version: u64, view: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{version}; {view}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-grants-version");

    fn taken(lines: &[&'static str]) -> Option<StatedGrants> {
        let mut headers: HeaderMap = lines.iter().map(|line| (NAME, HeaderValue::from_static(line))).collect();
        let taken = StatedGrants::take(&mut headers, &NAME);
        assert!(headers.is_empty());
        taken
    }

    #[test]
    fn stated_version_and_view_are_read() {
        let read = StatedGrants { version: 1_764_043_200_000, view: "limits".into() };
        assert_eq!(taken(&["1764043200000; limits"]), Some(read.clone()));
        assert_eq!(taken(&["1764043200000;limits"]), Some(read.clone()));
        assert_eq!(taken(&[line(read.version, "limits").unwrap().to_str().unwrap().to_owned().leak()]), Some(read));
    }

    #[test]
    fn anything_else_is_about_no_view() {
        let unread = Some(StatedGrants { version: 0, view: "".into() });
        assert_eq!(taken(&[]), None);
        for line in [
            "",
            "5",
            "5;",
            "; limits",
            "0; limits",
            "-5; limits",
            "+5; limits",
            "5; a b",
            "5; _grants",
            "5; limits; x",
        ] {
            assert_eq!(taken(&[line]), unread, "{line}");
        }
        assert_eq!(taken(&["5; limits", "6; limits"]), unread);
        assert_eq!(taken(&["99999999999999999999999; limits"]), unread);
    }

    fn version_of(lines: &[&'static str]) -> Option<u64> {
        let headers: HeaderMap = lines.iter().map(|line| (NAME, HeaderValue::from_static(line))).collect();
        stated_version(&headers, &NAME)
    }

    #[test]
    fn request_states_one_version() {
        assert_eq!(version_of(&["17"]), Some(17));
        for lines in [&[][..], &["0"], &["17; limits"], &["17", "18"], &["-1"], &["x"]] {
            assert_eq!(version_of(lines), None, "{lines:?}");
        }
    }
}
