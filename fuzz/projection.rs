//! Target of masks and projections: any mask, of any body.

use nearside::payload::mask::{Mask, decoded, take};
use nearside::payload::projection::{Index, project};
use serde::de::IgnoredAny;

/// A tab stands for so many spaces, so that a small input is a body of which an index is made.
const WIDE: usize = 300;
const BODY_BYTES: usize = 64 * 1024;

/// The first line is a mask, percent-encoded or not; the rest is the body.
pub(crate) fn projection(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let Some(Ok(text)) = parts.next().map(std::str::from_utf8) else { return };
    let body = widened(parts.next().unwrap_or_default());
    let target = format!("/r?x=1&{text}&fields={text}");
    let taken = take(&target, "fields");
    let again = take(&taken.path_and_query, "fields");
    assert!(taken.encoded.is_some() && again.encoded.is_none());
    assert!(taken.path_and_query.starts_with("/r?x=1"), "{}", taken.path_and_query);
    let meant = taken.encoded.map(|encoded| decoded(&encoded).and_then(|text| Mask::literal(&text)));
    if let Some(Ok(mask)) = meant {
        cut(&body, &mask);
    }
    let read = Mask::literal(text);
    let same = Mask::parse(text, |path: &[&str]| Some(path.iter().map(|name| (*name).to_owned()).collect()));
    assert_eq!(read, same);
    if let Ok(mask) = read {
        assert_eq!(Mask::literal(mask.canonical()).as_ref(), Ok(&mask));
        cut(&body, &mask);
    }
}

fn cut(body: &[u8], mask: &Mask) {
    let scanned = project(body, None, mask);
    if let Ok(index) = Index::of(body) {
        assert!(!Index::pays_for(body) || index.weight() * 20 <= body.len(), "{} bytes", index.weight());
        for _ in 0..2 {
            assert_eq!(project(body, Some(&index), mask), scanned);
        }
    }
    if let Ok(kept) = scanned
        && is_json(body)
    {
        assert!(is_json(kept.as_ref()), "{}", String::from_utf8_lossy(kept.as_ref()));
        assert_eq!(project(kept.as_ref(), None, mask).as_ref(), Ok(&kept));
    }
}

fn widened(body: &[u8]) -> Vec<u8> {
    let mut wide = Vec::new();
    for byte in body.iter().take(BODY_BYTES) {
        let count = if *byte == b'\t' && wide.len() < BODY_BYTES { WIDE } else { 1 };
        wide.extend(std::iter::repeat_n(if *byte == b'\t' { b' ' } else { *byte }, count));
    }
    wide
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}
