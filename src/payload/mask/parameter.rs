//! The query parameter that a mask travels in, which nobody behind the sidecar is to see.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::payload::mask::MaskError;

/// A target without one parameter of its query, and what that said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripped<'t> {
    /// Every byte of the rest as it came; without `?` if the parameter was all there was.
    pub path_and_query: Cow<'t, str>,
    /// Decoded, of several the values with a comma between them; `None` where the parameter is not
    /// there.
    pub value: Option<String>,
}

/// Takes every `parameter` out of the query, as a form would write it: `+` is a space, and the name
/// may be percent-encoded as well. Where it is not there this costs one look at the query.
pub fn take<'t>(path_and_query: &'t str, parameter: &str) -> Result<Stripped<'t>, MaskError> {
    let absent = Stripped { path_and_query: Cow::Borrowed(path_and_query), value: None };
    let Some((path, query)) = path_and_query.split_once('?') else { return Ok(absent) };
    if !query.split('&').any(|pair| value_of(pair, parameter).is_some()) {
        return Ok(absent);
    }
    let mut value = Vec::new();
    let mut rest = String::with_capacity(path_and_query.len());
    rest.push_str(path);
    let (mut values, mut left) = (0, '?');
    for pair in query.split('&') {
        if let Some(encoded) = value_of(pair, parameter) {
            if values > 0 {
                value.push(b',');
            }
            decode(encoded, &mut value);
            values += 1;
        } else {
            rest.push(left);
            rest.push_str(pair);
            left = '&';
        }
    }
    let rest = if rest.len() == path.len() + 1 { path.to_owned() } else { rest };
    let value = String::from_utf8(value).map_err(|_| MaskError::NotUtf8)?;
    Ok(Stripped { path_and_query: Cow::Owned(rest), value: Some(value) })
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
