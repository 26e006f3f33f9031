//! What was made of an entry's body: the record in its other form, and an index of its fields. Made
//! once for each version and kept with the entry, in whose weight it counts.

use std::sync::Arc;

use super::content::{Content, Outline};
use crate::payload::projection::Index;

/// Takes one word of an entry of which nothing was made, as of most.
#[derive(Clone, Debug, Default)]
pub struct Derived(Option<Arc<Made>>);

#[derive(Clone, Debug, Default)]
struct Made {
    forms: Vec<DerivedForm>,
    fields: Option<IndexedFields>,
}

/// What makes the fields of one JSON cheap, be it stored or made.
#[derive(Clone, Debug)]
pub struct IndexedFields {
    /// The form that it is of; `None` for the stored one.
    pub of: Option<u64>,
    /// `None` if it is no JSON.
    pub indexed: Option<(Arc<Index>, Outline)>,
}

/// The body in another form.
#[derive(Clone, Debug)]
pub struct DerivedForm {
    /// Tells apart what is made of one body: by the schema, how it is printed, the media type's name.
    pub id: u64,
    /// What its entity tag ends with.
    pub suffix: Box<str>,
    /// The header line that says what it is: a media type, or a content coding.
    pub line: (&'static str, &'static str),
    /// `None` if the body does not fit the schema, or no coding makes it smaller.
    pub content: Option<Arc<Content>>,
}

/// One for each name of Protobuf's media type. What an older schema made goes.
const FORMS: usize = 2;

impl Derived {
    pub const NONE: Self = Self(None);

    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub fn form(&self, id: u64) -> Option<&DerivedForm> {
        self.0.as_deref()?.forms.iter().find(|form| form.id == id)
    }

    /// `None` if it has not been made yet.
    pub fn fields(&self) -> Option<&IndexedFields> {
        self.0.as_deref()?.fields.as_ref()
    }

    #[must_use]
    pub fn with_form(&self, form: DerivedForm) -> Self {
        let mut made = self.0.as_deref().cloned().unwrap_or_default();
        made.forms.retain(|known| known.id != form.id);
        if made.forms.len() == FORMS {
            made.forms.remove(0);
        }
        made.forms.push(form);
        let is_there = |of: u64| made.forms.iter().any(|form| form.id == of);
        made.fields = made.fields.filter(|fields| fields.of.is_none_or(is_there));
        Self(Some(Arc::new(made)))
    }

    /// In place of those of another form.
    #[must_use]
    pub fn with_fields(&self, fields: IndexedFields) -> Self {
        let mut made = self.0.as_deref().cloned().unwrap_or_default();
        made.fields = Some(fields);
        Self(Some(Arc::new(made)))
    }

    /// The same under the header lines of `content`, whose body is the one that this was made of.
    #[must_use]
    pub fn under(&self, content: &Content) -> Self {
        let Some(made) = self.0.as_deref() else { return Self::NONE };
        let again = |form: &DerivedForm| {
            let instead = |body| Arc::new(content.outline(Some(form.line)).of(&form.suffix, body));
            DerivedForm { content: form.content.as_ref().map(|known| instead(known.body())), ..form.clone() }
        };
        let forms: Vec<_> = made.forms.iter().map(again).collect();
        let fields = made.fields.as_ref().map(|fields| {
            let form = |of: u64| forms.iter().find(|form| form.id == of)?.content.as_deref();
            let content = fields.of.map_or(Some(content), form);
            let indexed = fields.indexed.as_ref().zip(content);
            let indexed = indexed.map(|((index, _), content)| (index.clone(), content.outline(None)));
            IndexedFields { of: fields.of, indexed }
        });
        Self(Some(Arc::new(Made { forms, fields })))
    }

    /// Memory used beyond the word itself, in bytes.
    pub fn weight(&self) -> usize {
        /// The reference counts.
        const SHARED: usize = 16;
        let Some(made) = self.0.as_deref() else { return 0 };
        let content = |content: &Arc<Content>| SHARED + size_of::<Content>() + content.weight();
        let form = |form: &DerivedForm| {
            size_of::<DerivedForm>() + form.suffix.len() + form.content.as_ref().map_or(0, content)
        };
        let fields = |(index, outline): &(Arc<Index>, Outline)| SHARED + index.weight() + outline.weight();
        let indexed = made.fields.as_ref().and_then(|fields| fields.indexed.as_ref());
        SHARED + size_of::<Made>() + made.forms.iter().map(form).sum::<usize>() + indexed.map_or(0, fields)
    }
}
