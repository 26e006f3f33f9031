//! The shape in which a caller gets a record: its form (JSON or Protobuf), and which of its fields.
//! A route declares what its callers may ask for; who asks for nothing gets the region's bytes.
//!
//! Whatever the shape, there is one entry and one race: the form is derived from the stored body
//! once for each version and kept with the entry ([`crate::cache::derived`]), fields are cut out of
//! it for each answer.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

use crate::cache::key::AcceptEncoding;
use crate::cache::rfc9111;
use crate::config::error::{ConfigError, ConfigProblem};
use crate::config::limits::DESCRIPTOR_BYTES;
use crate::config::scope::Origins;
use crate::config::{Config, Form, MessageRef, MessageSettings, Route, RoutePayload, read_regular};
use crate::core::fill::Ask;
use crate::http::admission::Head;
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::MIB;
use crate::payload::accept::Choice;
use crate::payload::mask::{self, Mask, MaskError, Masks};
use crate::payload::schema::{Names, Printing, Schema, SchemaError};
use crate::payload::tags;

mod common_form;
mod derive;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use common_form::CommonForm;
pub(super) use derive::Derivations;
pub(crate) use derive::{form_of, form_sent, moved_on};
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
    /// If that is Protobuf.
    common: Option<Arc<CommonForm>>,
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

impl ShapeError {
    fn problem(&self) -> ConfigProblem {
        match self {
            Self::File { file, error } => {
                let what = format!("the schema {file} cannot be read: {error}");
                ConfigProblem::new(what, "create it, or correct the path and its permissions")
            }
            Self::Schema { file, error } => {
                // Each of them says what is wrong; what to do.
                let said = error.to_string();
                let (what, instead) = said.rsplit_once("; ").unwrap_or((&said, "make it again"));
                ConfigProblem::new(format!("{file} {what}"), instead)
            }
        }
    }
}

/// Every route's schema that cannot be used, with where it was written.
pub fn unusable_schemas(config: &Config, origins: &Origins) -> Vec<ConfigError> {
    let mistake = |(at, route): (usize, &Route)| {
        let error = Message::read(route.payload.message.as_ref()?).err()?;
        Some(origins.schema_mistake(at, error.problem()))
    };
    config.service.routes.iter().enumerate().filter_map(mistake).collect()
}

/// Why a request for a shape goes no further. The caller has to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ShapeRefused {
    #[error("{0}")]
    Mask(#[from] MaskError),
    /// There may be room later.
    #[error("too much is held in memory to cut these fields out now; try again")]
    NoRoom,
    /// `strict_accept`
    #[error("this path is served as application/json and application/x-protobuf alone")]
    NotAcceptable,
    /// The operator has to correct the schema, or the service its replies.
    #[error(
        "the record cannot be had in the form asked for: it does not fit the schema of this path, has more than {most} \
         MiB, or comes as a region sends it (no-transform, a signature, a content coding, a condition or body of the \
         caller's); accept the other form too",
        most = REPLY_BODY_BYTES / MIB
    )]
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
pub(super) struct Shaping<'h> {
    pub(super) path_and_query: Option<Cow<'h, str>>,
    pub(super) shape: Option<Shape>,
}

/// What a request asks of its route, for those who explain it.
pub struct Asked {
    /// Which form the caller gets; `None` without a schema.
    pub choice: Option<Choice>,
    /// What regions are asked for by the first way; `None` passes the caller's `Accept` on.
    pub form: Option<Form>,
    /// The target without the parameter that names fields, where it is there.
    pub path_and_query: Option<String>,
    /// The fields, written shortest; `None` for all.
    pub mask: Option<String>,
    shape: Option<Shape>,
}

impl Asked {
    /// Whether something is made of the bytes of regions that are asked for `form`, so that they are
    /// asked for plain ones.
    pub fn is_made(&self, form: Option<Form>) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.wants_identity(form))
    }
}

impl Shapes {
    pub(crate) fn asked(&self, head: Head<'_>) -> Result<Asked, ShapeRefused> {
        let choice = self.choice(head.headers);
        let Shaping { path_and_query, shape } = self.shaping(head, choice)?;
        let mask = shape.as_ref().and_then(|shape| shape.mask.as_ref()).map(|mask| mask.canonical().to_owned());
        let path_and_query = path_and_query.map(Cow::into_owned);
        Ok(Asked { choice, form: self.asked_form(choice), path_and_query, mask, shape })
    }

    /// The message that replies are.
    pub(crate) fn schema(&self) -> Option<&Arc<Schema>> {
        self.message.as_ref().map(|message| &message.schema)
    }

    /// If regions are asked for Protobuf.
    pub(super) fn common_form(&self) -> Option<&Arc<CommonForm>> {
        self.message.as_ref()?.common.as_ref()
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
    pub(super) fn shaping<'h>(&self, head: Head<'h>, choice: Option<Choice>) -> Result<Shaping<'h>, ShapeRefused> {
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
        let taken = self.fields.as_ref().map(|parameter| mask::take(query, parameter));
        taken.map_or_else(|| query.to_owned(), |taken| taken.path_and_query.into_owned())
    }

    /// The target without the parameter, and the fields that it names.
    fn mask<'h>(&self, head: Head<'h>) -> Result<(Option<Cow<'h, str>>, Option<Mask>), ShapeRefused> {
        let Some(parameter) = &self.fields else { return Ok((None, None)) };
        if head.path_and_query.len() == head.path_len {
            return Ok((None, None));
        }
        let taken = mask::take(head.path_and_query, parameter);
        let Some(encoded) = taken.encoded else { return Ok((None, None)) };
        let mask = self.masks.read(&encoded, |encoded| {
            let text = mask::decoded(encoded)?;
            match &self.message {
                Some(message) => Mask::parse(&text, |path| message.schema.json_names(path))
                    .map(|mask| mask.in_either_spelling(message.schema.clone())),
                None => Mask::literal(&text),
            }
        })?;
        Ok((Some(taken.path_and_query), Some(mask).filter(|mask| !mask.is_everything())))
    }
}

impl Message {
    fn read(settings: &MessageSettings) -> Result<Self, ShapeError> {
        let MessageRef { file, message } = &settings.schema;
        let shown = || file.display().to_string();
        let bytes =
            read_regular(file, DESCRIPTOR_BYTES).map_err(|error| ShapeError::File { file: shown(), error })?;
        let names = if settings.proto_names { Names::Proto } else { Names::Camel };
        let printing = Printing { names, defaults: settings.print_defaults };
        let schema =
            Schema::read(&bytes, message, printing).map_err(|error| ShapeError::Schema { file: shown(), error })?;
        let common = (settings.form == Form::Protobuf).then(Arc::default);
        Ok(Self { schema: Arc::new(schema), form: settings.form, common, strict_accept: settings.strict_accept })
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

/// A region knows its own entity tags, not those of what was made of its bytes. Not so `If-Range`:
/// a part of the region's bytes is no part of what was made of them.
pub(crate) fn name_region_tags(headers: &mut HeaderMap, payload: &RoutePayload) {
    if !payload.is_declared() {
        return;
    }
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        let header::Entry::Occupied(mut lines) = headers.entry(name) else { continue };
        for line in lines.iter_mut() {
            if let Ok(tags) = HeaderValue::from_bytes(&tags::region_tags(line.as_bytes(), payload)) {
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
    dress(&mut Arc::make_mut(&mut ask.request).headers, form, is_identity);
    ask
}

/// The same of a request's lines.
pub(crate) fn dress(headers: &mut HeaderMap, form: Option<Form>, is_identity: bool) {
    if let Some(form) = form {
        headers.insert(header::ACCEPT, accept_of(form));
    }
    if is_identity {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}
