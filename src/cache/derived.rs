//! Contents derived from an entry's body: the record in its other form, and an index of its fields.
//! Made once for each version and kept with the entry, in whose weight it counts.

use std::sync::Arc;

use super::content::{Content, Outline};
use crate::payload::projection::Index;

/// Takes one word of an entry of which nothing was made, as of most.
#[derive(Clone, Debug, Default)]
pub struct Derived(Option<Arc<DerivedContents>>);

#[derive(Clone, Debug, Default)]
struct DerivedContents {
    forms: Vec<DerivedForm>,
    fields: Option<IndexedFields>,
}

/// Index that makes the fields of one JSON cheap, be it stored or made.
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
    /// Suffix of its entity tag.
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
        made.fields =
            made.fields.filter(|fields| fields.of.is_none_or(|of| made.forms.iter().any(|form| form.id == of)));
        Self(Some(Arc::new(made)))
    }

    /// Replaces fields of another form.
    #[must_use]
    pub fn with_fields(&self, fields: IndexedFields) -> Self {
        let mut made = self.0.as_deref().cloned().unwrap_or_default();
        made.fields = Some(fields);
        Self(Some(Arc::new(made)))
    }

    /// Moves what was made to the header lines of `content`, whose body is the one that this was
    /// made of.
    #[must_use]
    pub fn under(&self, content: &Content) -> Self {
        let Some(made) = self.0.as_deref() else { return Self::NONE };
        let forms: Vec<_> = made
            .forms
            .iter()
            .map(|form| {
                let content = form
                    .content
                    .as_ref()
                    .map(|known| Arc::new(content.outline(Some(form.line)).of(&form.suffix, known.body())));
                DerivedForm { content, ..form.clone() }
            })
            .collect();
        let fields = made.fields.as_ref().map(|fields| {
            let content =
                fields.of.map_or(Some(content), |of| forms.iter().find(|form| form.id == of)?.content.as_deref());
            let indexed = fields.indexed.as_ref().zip(content);
            let indexed = indexed.map(|((index, _), content)| (index.clone(), content.outline(None)));
            IndexedFields { of: fields.of, indexed }
        });
        Self(Some(Arc::new(DerivedContents { forms, fields })))
    }

    /// Memory used beyond the word itself, in bytes.
    pub fn weight(&self) -> usize {
        /// The reference counts.
        const SHARED: usize = 16;
        let Some(made) = self.0.as_deref() else { return 0 };
        let indexed = made.fields.as_ref().and_then(|fields| fields.indexed.as_ref());
        SHARED
            + size_of::<DerivedContents>()
            + made
                .forms
                .iter()
                .map(|form| {
                    size_of::<DerivedForm>()
                        + form.suffix.len()
                        + form.content.as_ref().map_or(0, |content| SHARED + size_of::<Content>() + content.weight())
                })
                .sum::<usize>()
            + indexed.map_or(0, |(index, outline)| SHARED + index.weight() + outline.weight())
    }
}
