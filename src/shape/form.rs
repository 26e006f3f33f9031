//! The form of a record: what a media type names, and how regions are asked for it.

use http::{HeaderMap, HeaderValue, header};

use crate::cache::content::Content;
use crate::config::Form;
use crate::payload::accept;

/// Which form a reply's media type names; `None` for any other.
pub(crate) fn form_of(content: &Content) -> Option<Form> {
    form_named(content.value(&header::CONTENT_TYPE)?)
}

/// Form named by the media type of a reply as it came.
pub(crate) fn form_sent(headers: &HeaderMap) -> Option<Form> {
    form_named(headers.get(header::CONTENT_TYPE)?.as_bytes())
}

fn form_named(media_type: &[u8]) -> Option<Form> {
    if accept::is_json(media_type) {
        return Some(Form::Json);
    }
    accept::is_protobuf(media_type).then_some(Form::Protobuf)
}

/// `Accept` for regions on a route of this form.
pub(crate) fn accept_of(form: Form) -> HeaderValue {
    HeaderValue::from_static(match form {
        Form::Json => "application/json",
        Form::Protobuf => "application/x-protobuf, application/json;q=0.5",
    })
}

/// Asks regions for a form, whatever the caller's own lines, and for bytes as they are.
pub(crate) fn insert_form(headers: &mut HeaderMap, form: Option<Form>, is_uncoded: bool) {
    if let Some(form) = form {
        headers.insert(header::ACCEPT, accept_of(form));
    }
    if is_uncoded {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}
