//! The query parameter that a mask travels in, which nobody behind the sidecar is to see.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::error::MaskError;

/// A target without one parameter of its query, and what that said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripped<'t> {
    /// Every byte of the rest as it came; without `?` if the parameter was all there was.
    pub path_and_query: Cow<'t, str>,
    /// As it stands there, of several the values with a comma between them; `None` where the
    /// parameter is not there. [`decoded`] says what it means.
    pub encoded: Option<Cow<'t, str>>,
}

/// Takes every `parameter` out of the query, as a form would write it: its name may be
/// percent-encoded as well. Where it is not there this costs one look at the query.
pub fn take<'t>(path_and_query: &'t str, parameter: &str) -> Stripped<'t> {
    let absent = Stripped { path_and_query: Cow::Borrowed(path_and_query), encoded: None };
    let Some((path, query)) = path_and_query.split_once('?') else { return absent };
    let mut values = query.split('&').filter_map(|pair| value_of(pair, parameter));
    let Some(first) = values.next() else { return absent };
    let encoded = values.fold(Cow::Borrowed(first), |encoded, value| Cow::Owned(encoded.into_owned() + "," + value));
    let mut rest = Cow::Borrowed(path);
    let mut left = '?';
    for pair in query.split('&').filter(|pair| value_of(pair, parameter).is_none()) {
        let rest = rest.to_mut();
        rest.push(left);
        rest.push_str(pair);
        left = '&';
    }
    // All that is left may be one empty pair.
    let rest = if rest.len() == path.len() + 1 { Cow::Borrowed(path) } else { rest };
    Stripped { path_and_query: rest, encoded: Some(encoded) }
}

/// Decodes a value that is encoded as in a form: without percent-encoding, and with a space for
/// each `+`.
pub fn decoded(encoded: &str) -> Result<String, MaskError> {
    let mut text = Vec::with_capacity(encoded.len());
    decode(encoded, &mut text);
    String::from_utf8(text).map_err(|_| MaskError::NotUtf8)
}

/// The value of a pair if its name is `parameter`.
fn value_of<'p>(pair: &'p str, parameter: &str) -> Option<&'p str> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let is_it = name == parameter
        || name.contains(['%', '+']) && {
            let mut decoded = Vec::with_capacity(name.len());
            decode(name, &mut decoded);
            decoded == parameter.as_bytes()
        };
    is_it.then_some(value)
}

fn decode(text: &str, to: &mut Vec<u8>) {
    for (at, part) in text.split('+').enumerate() {
        if at > 0 {
            to.push(b' ');
        }
        to.extend(percent_decode(part.as_bytes()));
    }
}
