//! Entity tags of what was made of a region's bytes: the region's own tag with a suffix that says
//! what was made, and that is taken off again in conditions which regions are to understand.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::config::RoutePayload;

/// Letter in [`suffix`] of fields that were cut out, and of the record in either form.
pub(crate) const FIELDS: char = 'm';
pub(crate) const JSON: char = 'j';
pub(crate) const PROTOBUF: char = 'p';

/// Suffix to a region's entity tag for a body that was made of its bytes, and taken off again by
/// [`region_tags`].
pub(crate) fn suffix(letter: char, id: u64) -> String {
    let suffix = format!("~{letter}{id:016x}");
    let check = check(&suffix);
    suffix + &check
}

const SUFFIX_BYTES: usize = "~p0123456789abcdef".len();
const CHECK_BYTES: usize = 4;

/// Check that distinguishes a suffix of ours from a region's own tag that looks like one. Equal in
/// all processes.
fn check(suffix: &str) -> String {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x7461_6773);
    hasher.write(suffix.as_bytes());
    format!("{:04x}", hasher.finish() as u16)
}

/// The entity tags of a condition as the region knows them: without what this route may have
/// appended.
pub(crate) fn region_tags(line: &[u8], payload: &RoutePayload) -> Vec<u8> {
    let mut tags = Vec::with_capacity(line.len());
    for part in line.split_inclusive(|byte| *byte == b'"') {
        let (before, quote) = part.split_at(part.len() - usize::from(part.ends_with(b"\"")));
        let is_closed = !quote.is_empty();
        // In the opposite order: fields are cut out of a form.
        let tag = if is_closed && payload.fields.is_some() { without_suffix(before, &[FIELDS]) } else { before };
        let tag = if is_closed && payload.message.is_some() { without_suffix(tag, &[PROTOBUF, JSON]) } else { tag };
        tags.extend_from_slice(tag);
        tags.extend_from_slice(quote);
    }
    tags
}

fn without_suffix<'t>(tag: &'t [u8], letters: &[char]) -> &'t [u8] {
    before_suffix(tag, letters).unwrap_or(tag)
}

/// The tag before a suffix of ours; `None` if there is none.
fn before_suffix<'t>(tag: &'t [u8], letters: &[char]) -> Option<&'t [u8]> {
    let at = tag.len().checked_sub(SUFFIX_BYTES + CHECK_BYTES)?;
    let (suffix, stated) = std::str::from_utf8(&tag[at..]).ok()?.split_at_checked(SUFFIX_BYTES)?;
    let is_ours = suffix.strip_prefix('~')?.starts_with(letters) && check(suffix) == stated;
    is_ours.then_some(&tag[..at])
}
