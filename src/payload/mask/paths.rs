//! The grammar of masks: a text as paths, and paths as a text.

use std::borrow::Cow;

use super::error::MaskError;
use crate::payload::limits::{MASK_BYTES, MASK_DEPTH, MASK_PATHS};

/// The mask that leaves out nothing.
pub(super) const EVERYTHING: &str = "*";

/// Paths of names, one behind the other, in few pieces of memory: this is made per request.
#[derive(Debug, Default)]
pub(in crate::payload) struct Paths<'t> {
    names: Vec<Cow<'t, str>>,
    /// End of each path in `names`.
    ends: Vec<usize>,
    /// One of them was `*`.
    pub(super) everything: bool,
}

impl<'t> Paths<'t> {
    pub(super) fn read(text: &'t str) -> Result<Self, MaskError> {
        if text.len() > MASK_BYTES {
            return Err(MaskError::TooLong);
        }
        Self::read_within(text, MASK_PATHS)
    }

    /// As [`Self::read`], with at most `most` paths of any length.
    pub(super) fn read_within(text: &'t str, most: usize) -> Result<Self, MaskError> {
        let mut paths = Self::default();
        let mut rest = text.trim_start_matches(' ');
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(',') {
                rest = after.trim_start_matches(' ');
                continue;
            }
            if paths.ends.len() == most {
                return Err(MaskError::TooManyPaths);
            }
            rest = paths.read_path(rest)?.trim_start_matches(' ');
        }
        Ok(paths)
    }

    /// Reads one path from the beginning of `text`; returns what is behind it: nothing, or a comma
    /// and more.
    fn read_path(&mut self, text: &'t str) -> Result<&'t str, MaskError> {
        let start = self.names.len();
        let (mut rest, mut stars) = (text, 0);
        loop {
            let (name, after) = match rest.strip_prefix('`') {
                Some(quoted) => {
                    let (name, after) = unquoted(quoted).ok_or_else(|| MaskError::Quote(first_path(text)))?;
                    (name, after.trim_start_matches(' '))
                }
                None => {
                    let end = rest.bytes().position(|byte| matches!(byte, b',' | b'.' | b'`'));
                    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
                    let name = if after.starts_with('.') { name } else { name.trim_end_matches(' ') };
                    if name.is_empty() {
                        return Err(MaskError::EmptyName(first_path(text)));
                    }
                    stars += usize::from(name == EVERYTHING);
                    (Cow::Borrowed(name), after)
                }
            };
            self.names.push(name);
            match after.as_bytes().first() {
                Some(b'.') => rest = &after[1..],
                None | Some(b',') => {
                    rest = after;
                    break;
                }
                Some(_) => return Err(MaskError::Quote(first_path(text))),
            }
        }
        let names = self.names.len() - start;
        if stars > 0 && names > 1 {
            return Err(MaskError::Wildcard(first_path(text)));
        }
        if names > MASK_DEPTH {
            return Err(MaskError::TooDeep(first_path(text)));
        }
        self.everything |= stars > 0;
        if stars > 0 {
            self.names.truncate(start);
        } else {
            self.ends.push(self.names.len());
        }
        Ok(rest)
    }

    /// The paths that `names` makes of these.
    pub(super) fn meant(&self, names: impl Fn(&[&str]) -> Option<Vec<String>>) -> Result<Paths<'static>, MaskError> {
        let mut meant = Paths { everything: self.everything, ..Paths::default() };
        let mut written = Vec::new();
        for path in self.iter() {
            written.clear();
            written.extend(path.iter().map(|name| &**name));
            let found = names(&written).filter(|found| !found.is_empty());
            let found = found.ok_or_else(|| MaskError::Unknown(text(path)))?;
            if found.len() > MASK_DEPTH {
                return Err(MaskError::TooDeep(text(path)));
            }
            meant.names.extend(found.into_iter().map(Cow::Owned));
            meant.ends.push(meant.names.len());
        }
        Ok(meant)
    }

    pub(in crate::payload) fn iter(&self) -> impl Iterator<Item = &[Cow<'t, str>]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.names[start..*end])
    }

    /// Sorted, without duplicates and what a shorter path covers; `*` if that is everything.
    pub(super) fn canonical(&self) -> String {
        if self.everything || self.ends.is_empty() {
            return EVERYTHING.to_owned();
        }
        let mut paths: Vec<_> = self.iter().collect();
        // By names, not by text: so what a path covers comes right behind it.
        paths.sort_unstable();
        let mut canonical =
            String::with_capacity(paths.iter().flat_map(|path| path.iter()).map(|it| it.len() + 1).sum());
        let mut last: Option<&[Cow<'_, str>]> = None;
        for path in paths {
            if last.is_some_and(|last| path.starts_with(last)) {
                continue;
            }
            if last.is_some() {
                canonical.push(',');
            }
            write(path, &mut canonical);
            last = Some(path);
        }
        canonical
    }
}

/// The path that `text` begins with, in an error.
fn first_path(text: &str) -> String {
    text.split(',').next().unwrap_or_default().trim_end_matches(' ').to_owned()
}

/// A path as it is written.
pub(super) fn text(path: &[Cow<'_, str>]) -> String {
    let mut text = String::new();
    write(path, &mut text);
    text
}

fn write(path: &[Cow<'_, str>], to: &mut String) {
    for (at, name) in path.iter().enumerate() {
        if at > 0 {
            to.push('.');
        }
        if is_plain(name) {
            to.push_str(name);
        } else {
            to.extend(["`", &name.replace('`', "``"), "`"]);
        }
    }
}

/// True if a name means itself without quotes.
fn is_plain(name: &str) -> bool {
    let has_signs = name.bytes().any(|byte| matches!(byte, b',' | b'.' | b'`'));
    !(name.is_empty() || has_signs || name.starts_with(' ') || name.ends_with(' ') || name == EVERYTHING)
}

/// The name that begins behind a backtick, and what is behind the backtick that ends it.
fn unquoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut end = text.find('`')?;
    if !text[end + 1..].starts_with('`') {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let (mut name, mut rest) = (String::new(), text);
    while rest[end + 1..].starts_with('`') {
        name.push_str(&rest[..=end]);
        rest = &rest[end + 2..];
        end = rest.find('`')?;
    }
    name.push_str(&rest[..end]);
    Some((Cow::Owned(name), &rest[end + 1..]))
}
