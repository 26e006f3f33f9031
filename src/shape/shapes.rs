//! Shapes that the callers of a route may ask for, and the shape that one request asks for. A route
//! declares it; who asks for nothing gets the region's bytes.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

use super::common_form::CommonForm;
use crate::cache::key::AcceptEncoding;
use crate::cache::rfc9111;
use crate::config::error::{ConfigError, ConfigProblem};
use crate::config::limits::DESCRIPTOR_BYTES;
use crate::config::scope::Origins;
use crate::config::{Config, Form, MessageRef, MessageSettings, Route, RoutePayload, read_regular};
use crate::http::admission::Head;
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::MIB;
use crate::payload::accept::Choice;
use crate::payload::mask::{self, Mask, MaskError, Masks};
use crate::payload::schema::{Schema, SchemaError};
use crate::payload::tags;

/// Shapes that the callers of one route may ask for.
pub(crate) struct Shapes {
    message: Option<Arc<Message>>,
    /// The query parameter that names fields.
    fields: Option<String>,
    /// The masks that callers named lately.
    masks: Masks,
    zstd: bool,
}

pub(super) struct Message {
    /// The route's path.
    pub(super) path: String,
    pub(super) schema: Arc<Schema>,
    /// Form that regions are asked for.
    form: Form,
    /// Present if that is Protobuf.
    common: Option<Arc<CommonForm>>,
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
    config
        .service
        .routes
        .iter()
        .enumerate()
        .filter_map(|(at, route)| {
            let error = Message::read(route.payload.message.as_ref()?, &route.path.text).err()?;
            Some(origins.schema_error(at, error.problem()))
        })
        .collect()
}

/// Why a request for a shape goes no further. The caller has to correct it.
#[derive(Debug, thiserror::Error)]
pub enum ShapeRefused {
    #[error("{0}")]
    Mask(#[from] MaskError),
    /// There may be room later.
    #[error("too much is held in memory to cut these fields out now; try again")]
    NoRoom,
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
pub(crate) struct Shape {
    pub(super) form: Option<FormAsked>,
    pub(super) mask: Option<Mask>,
    /// Compressed, if that makes it smaller; without form and mask alone.
    pub(super) zstd: bool,
}

/// Which form, on a route with a message.
#[derive(Clone)]
pub(super) struct FormAsked {
    pub(super) message: Arc<Message>,
    pub(super) form: Form,
    /// As the caller names it.
    pub(super) media_type: &'static str,
    /// The caller takes the other form where this one cannot be had.
    pub(super) or_the_other: bool,
}

/// A request for a shape: its target without what only the sidecar understands.
pub(crate) struct Shaping<'h> {
    pub(crate) path_and_query: Option<Cow<'h, str>>,
    pub(crate) shape: Option<Shape>,
}

/// Explanation of what a request asks of its route.
pub struct Asked {
    /// Which form the caller gets; `None` without a schema.
    pub choice: Option<Choice>,
    /// Form that the current upstream is asked for; `None` passes the caller's `Accept` on.
    pub form: Option<Form>,
    /// The target without the parameter that names fields, where it is there.
    pub path_and_query: Option<String>,
    /// The fields, written shortest; `None` for all.
    pub mask: Option<String>,
    shape: Option<Shape>,
}

impl Asked {
    /// True if something is made of the bytes of regions that are asked for `form`, so that they
    /// are asked for plain ones.
    pub fn is_made(&self, form: Option<Form>) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.wants_uncoded(form))
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
    pub(crate) fn common_form(&self) -> Option<&Arc<CommonForm>> {
        self.message.as_ref()?.common.as_ref()
    }

    /// Reads the files that a route names. `None` if its callers may ask for nothing.
    pub(crate) fn of(route: &Route) -> Result<Option<Arc<Self>>, ShapeError> {
        let payload = &route.payload;
        if !payload.is_declared() {
            return Ok(None);
        }
        let message = payload.message.as_ref().map(|settings| Message::read(settings, &route.path.text));
        let message = message.transpose()?.map(Arc::new);
        Ok(Some(Arc::new(Self {
            message,
            fields: payload.fields.clone(),
            masks: Masks::default(),
            zstd: payload.zstd,
        })))
    }

    /// Which form the header lines of a request ask for; `None` without a schema.
    pub(crate) fn choice(&self, headers: &HeaderMap) -> Option<Choice> {
        self.message.as_ref().map(|_| Choice::of(headers))
    }

    /// Form that regions are asked for on behalf of `choice`; `None` passes the caller's `Accept`
    /// on.
    pub(crate) fn asked_form(&self, choice: Option<Choice>) -> Option<Form> {
        let message = self.message.as_ref()?;
        (!matches!(choice, None | Some(Choice::AsNamed))).then_some(message.form)
    }

    /// Shape that `head` asks for, by a caller of this choice.
    pub(crate) fn shaping<'h>(&self, head: Head<'h>, choice: Option<Choice>) -> Result<Shaping<'h>, ShapeRefused> {
        let (path_and_query, mask) = self.mask(head)?;
        let form = self.message.as_ref().zip(choice).and_then(|(message, choice)| FormAsked::of(message, choice));
        let is_whole = form.is_none() && mask.is_none();
        let zstd = is_whole && self.zstd && AcceptEncoding::of(head.headers).has_zstd();
        let shape = (!is_whole || zstd).then_some(Shape { form, mask, zstd });
        Ok(Shaping { path_and_query, shape })
    }

    /// A query, with its `?`, without the parameter that names fields.
    pub(crate) fn without_fields(&self, query: &str) -> String {
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
    fn read(settings: &MessageSettings, path: &str) -> Result<Self, ShapeError> {
        let MessageRef { file, message } = &settings.schema;
        let shown = file.display();
        let bytes = read_regular(file, DESCRIPTOR_BYTES)
            .map_err(|error| ShapeError::File { file: shown.to_string(), error })?;
        let schema =
            Schema::read(&bytes, message).map_err(|error| ShapeError::Schema { file: shown.to_string(), error })?;
        let common = (settings.form == Form::Protobuf).then(Arc::default);
        Ok(Self { path: path.to_owned(), schema: Arc::new(schema), form: settings.form, common })
    }
}

impl FormAsked {
    fn of(message: &Arc<Message>, choice: Choice) -> Option<Self> {
        let (form, media_type, or_the_other) = match choice {
            Choice::Json => (Form::Json, "application/json", false),
            Choice::Protobuf { media_type, or_json } => (Form::Protobuf, media_type, or_json),
            Choice::AsNamed => return None,
        };
        Some(Self { message: message.clone(), form, media_type, or_the_other })
    }

    /// Distinguishes what is derived of one body.
    pub(super) fn id(&self) -> u64 {
        let name = match (self.form, self.media_type) {
            (Form::Json, _) => 1,
            (Form::Protobuf, "application/protobuf") => 2,
            (Form::Protobuf, _) => 3,
        };
        self.message.schema.id().rotate_left(8) ^ name
    }
}

impl Shape {
    /// True if regions are asked for bytes without a content coding: something is made of them.
    pub(crate) fn wants_uncoded(&self, asked: Option<Form>) -> bool {
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
