//! The shape in which a caller gets a record: its form (JSON or Protobuf), and which of its fields.
//! A route declares what its callers may ask for; who asks for nothing gets the region's bytes.
//!
//! Whatever the shape, there is one entry and one race: the form is derived from the stored body
//! once for each version and kept with the entry ([`crate::cache::derived`]), fields are cut out of
//! it for each answer.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

use crate::cache::key::AcceptEncoding;
use crate::cache::rfc9111;
use crate::config::{Form, MessageRef, MessageSettings, Route, RoutePayload};
use crate::core::fill::Ask;
use crate::http::admission::Head;
use crate::payload::accept::Choice;
use crate::payload::mask::{self, Mask, MaskError, Masks};
use crate::payload::schema::{Names, Printing, Schema, SchemaError};

mod derive;
mod show;
#[cfg(test)]
mod tests;

pub(super) use derive::Derivations;
pub(crate) use derive::{form_named, moved_on};
pub(super) use show::Shaped;
pub use show::Unshaped;

/// What the callers of one route may ask for.
pub(crate) struct Shapes {
    message: Option<Message>,
    /// The query parameter that names fields.
    fields: Option<String>,
    /// The masks that callers named lately.
    masks: Masks,
    zstd: bool,
}

struct Message {
    schema: Arc<Schema>,
    /// What regions are asked for.
    form: Form,
    strict_accept: bool,
}

/// A schema that cannot be used. The operator has to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    #[error("service.route.schema: {file} cannot be read: {error}")]
    File { file: String, error: std::io::Error },
    #[error("service.route.schema: {file}: {error}")]
    Schema { file: String, error: SchemaError },
}

/// Why a request for a shape goes no further. The caller has to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ShapeRefused {
    #[error("{0}")]
    Mask(#[from] MaskError),
    /// `strict_accept`
    #[error("this path is served as application/json and application/x-protobuf alone")]
    NotAcceptable,
    /// The operator has to correct the schema, or the service its replies.
    #[error("the record does not fit the schema of this path, and the caller takes no other form; accept JSON too")]
    Mismatch,
}

/// The shape that one request asks for.
#[derive(Clone)]
pub(super) struct Shape {
    form: Option<FormAsked>,
    mask: Option<Mask>,
    /// Compressed, if that makes it smaller; without form and mask alone.
    zstd: bool,
}

/// Which form, on a route with a message.
#[derive(Clone)]
struct FormAsked {
    schema: Arc<Schema>,
    form: Form,
    /// As the caller names it.
    media_type: &'static str,
    /// The caller takes the other form where this one cannot be had.
    or_the_other: bool,
}

/// A request for a shape: its target without what only the sidecar understands.
pub(super) struct Shaping {
    pub(super) path_and_query: Option<String>,
    pub(super) shape: Option<Shape>,
}

impl Shapes {
    /// The message that replies are.
    pub(super) fn schema(&self) -> Option<&Arc<Schema>> {
        self.message.as_ref().map(|message| &message.schema)
    }

    /// Reads the files that a route names. `None` if its callers may ask for nothing.
    pub(crate) fn of(route: &Route) -> Result<Option<Arc<Self>>, ShapeError> {
        let payload = &route.payload;
        if !payload.is_declared() {
            return Ok(None);
        }
        let message = payload.message.as_ref().map(Message::read).transpose()?;
        Ok(Some(Arc::new(Self {
            message,
            fields: payload.fields.clone(),
            masks: Masks::default(),
            zstd: payload.zstd,
        })))
    }

    /// Which form the header lines of a request ask for; `None` without a schema.
    pub(super) fn choice(&self, headers: &HeaderMap) -> Option<Choice> {
        self.message.as_ref().map(|_| Choice::of(headers))
    }

    /// What regions are asked for on behalf of `choice`; `None` passes the caller's `Accept` on.
    pub(super) fn asked_form(&self, choice: Option<Choice>) -> Option<Form> {
        let message = self.message.as_ref()?;
        (!matches!(choice, None | Some(Choice::AsNamed))).then_some(message.form)
    }

    /// What `head` asks for, by a caller of this choice.
    pub(super) fn shaping(&self, head: Head<'_>, choice: Option<Choice>) -> Result<Shaping, ShapeRefused> {
        let message = self.message.as_ref();
        if choice == Some(Choice::AsNamed) && message.is_some_and(|message| message.strict_accept) {
            return Err(ShapeRefused::NotAcceptable);
        }
        let (path_and_query, mask) = self.mask(head)?;
        let form = message.zip(choice).and_then(|(message, choice)| FormAsked::of(message, choice));
        let is_whole = form.is_none() && mask.is_none();
        let zstd = is_whole && self.zstd && AcceptEncoding::of(head.headers).has_zstd();
        let shape = (!is_whole || zstd).then_some(Shape { form, mask, zstd });
        Ok(Shaping { path_and_query, shape })
    }

    /// A query, with its `?`, without the parameter that names fields.
    pub(super) fn without_fields(&self, query: &str) -> String {
        let taken = self.fields.as_ref().and_then(|parameter| mask::take(query, parameter).ok());
        taken.map_or_else(|| query.to_owned(), |taken| taken.path_and_query.into_owned())
    }

    /// The target without the parameter, and the fields that it names.
    fn mask(&self, head: Head<'_>) -> Result<(Option<String>, Option<Mask>), ShapeRefused> {
        let Some(parameter) = &self.fields else { return Ok((None, None)) };
        if head.path_and_query.len() == head.path_len {
            return Ok((None, None));
        }
        let taken = mask::take(head.path_and_query, parameter)?;
        let Some(value) = taken.value else { return Ok((None, None)) };
        let mask = self.masks.read(&value, |text| match &self.message {
            Some(message) => Mask::parse(text, |path| message.schema.json_names(path)),
            None => Mask::literal(text),
        })?;
        Ok((Some(taken.path_and_query.into_owned()), Some(mask).filter(|mask| !mask.is_everything())))
    }
}

impl Message {
    fn read(settings: &MessageSettings) -> Result<Self, ShapeError> {
        let MessageRef { file, message } = &settings.schema;
        let shown = || file.display().to_string();
        let bytes = std::fs::read(file).map_err(|error| ShapeError::File { file: shown(), error })?;
        let names = if settings.proto_names { Names::Proto } else { Names::Camel };
        let printing = Printing { names, defaults: settings.print_defaults };
        let schema =
            Schema::read(&bytes, message, printing).map_err(|error| ShapeError::Schema { file: shown(), error })?;
        Ok(Self { schema: Arc::new(schema), form: settings.form, strict_accept: settings.strict_accept })
    }
}

impl FormAsked {
    fn of(message: &Message, choice: Choice) -> Option<Self> {
        let (form, media_type, or_the_other) = match choice {
            Choice::Json => (Form::Json, "application/json", false),
            Choice::Protobuf { media_type, or_json } => (Form::Protobuf, media_type, or_json),
            Choice::AsNamed => return None,
        };
        Some(Self { schema: message.schema.clone(), form, media_type, or_the_other })
    }

    /// What tells apart what is derived of one body.
    fn id(&self) -> u64 {
        let name = match (self.form, self.media_type) {
            (Form::Json, _) => 1,
            (Form::Protobuf, "application/protobuf") => 2,
            (Form::Protobuf, _) => 3,
        };
        self.schema.id().rotate_left(8) ^ name
    }
}

impl Shape {
    /// Whether regions are asked for bytes without a content coding: something is made of them.
    pub(super) fn wants_identity(&self, asked: Option<Form>) -> bool {
        self.mask.is_some() || self.form.as_ref().is_some_and(|form| Some(form.form) != asked)
    }
}

/// With what the answers of a route vary by, since the sidecar chooses among forms or codings.
pub(crate) fn varied(mut headers: HeaderMap, payload: &RoutePayload) -> HeaderMap {
    let by_form = payload.message.is_some().then_some((header::ACCEPT, "accept"));
    let by_coding = (by_form.is_some() || payload.zstd).then_some((header::ACCEPT_ENCODING, "accept-encoding"));
    if by_coding.is_none() {
        return headers;
    }
    let named = rfc9111::storing::nominated(&headers);
    for (name, line) in by_form.into_iter().chain(by_coding) {
        // `*` names everything.
        if named.as_ref().is_some_and(|named| !named.contains(&name)) {
            headers.append(header::VARY, HeaderValue::from_static(line));
        }
    }
    headers
}

/// A region knows its own entity tags, not those of what was made of its bytes.
pub(crate) fn name_region_tags(headers: &mut HeaderMap) {
    for name in [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_RANGE] {
        let header::Entry::Occupied(mut lines) = headers.entry(name) else { continue };
        for line in lines.iter_mut() {
            let tags = line.to_str().ok().map(show::region_tags);
            if let Some(Ok(tags)) = tags.map(HeaderValue::try_from) {
                *line = tags;
            }
        }
    }
}

/// What regions are asked for on a route of this form.
pub(crate) fn accept_of(form: Form) -> HeaderValue {
    HeaderValue::from_static(match form {
        Form::Json => "application/json",
        Form::Protobuf => "application/x-protobuf, application/json;q=0.5",
    })
}

/// Asks regions for a form, whatever the caller's own lines, and for bytes as they are.
pub(super) fn dressed(mut ask: Ask, form: Option<Form>, is_identity: bool) -> Ask {
    if form.is_none() && !is_identity {
        return ask;
    }
    let headers = &mut Arc::make_mut(&mut ask.request).headers;
    if let Some(form) = form {
        headers.insert(header::ACCEPT, accept_of(form));
    }
    if is_identity {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    ask
}
