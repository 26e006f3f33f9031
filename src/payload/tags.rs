//! Entity tags of what was made of a region's bytes: the region's own tag with a suffix that says
//! what was made, and that is taken off again in conditions which regions are to understand.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::config::RoutePayload;

/// In [`suffix`], the letter of fields that were cut out, and of the record in either form.
pub(crate) const FIELDS: char = 'm';
pub(crate) const JSON: char = 'j';
pub(crate) const PROTOBUF: char = 'p';

/// What is appended to a region's entity tag for what was made of its bytes, and taken off again by
/// [`region_tags`].
pub(crate) fn suffix(letter: char, id: u64) -> String {
    let suffix = format!("~{letter}{id:016x}");
    let check = check(&suffix);
    suffix + &check
}

const SUFFIX_BYTES: usize = "~p0123456789abcdef".len();
const CHECK_BYTES: usize = 4;

/// What tells a suffix of ours from a region's own tag that looks like one. The same everywhere.
fn check(suffix: &str) -> String {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x7461_6773);
    hasher.write(suffix.as_bytes());
    format!("{:04x}", hasher.finish() as u16)
}

/// The entity tags of a condition as the region knows them: without what this route may have
/// appended.
pub(crate) fn region_tags(line: &str, payload: &RoutePayload) -> String {
    let mut tags = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(close) = rest.find('"') {
        let (before, after) = rest.split_at(close);
        // In the opposite order: fields are cut out of a form.
        let tag = if payload.fields.is_some() { without_suffix(before, &[FIELDS]) } else { before };
        let tag = if payload.message.is_some() { without_suffix(tag, &[PROTOBUF, JSON]) } else { tag };
        tags.push_str(tag);
        tags.push('"');
        rest = &after[1..];
    }
    tags.push_str(rest);
    tags
}

fn without_suffix<'t>(tag: &'t str, letters: &[char]) -> &'t str {
    let shorter = || {
        let at = tag.len().checked_sub(SUFFIX_BYTES + CHECK_BYTES)?;
        let (suffix, stated) = tag.get(at..)?.split_at_checked(SUFFIX_BYTES)?;
        let is_ours = suffix.strip_prefix('~')?.starts_with(letters) && check(suffix) == stated;
        is_ours.then_some(&tag[..at])
    };
    shorter().unwrap_or(tag)
}
