//! The target of content codings: what a region sends under one, and dictionaries.

use std::sync::LazyLock;

use bytes::Bytes;
use nearside::payload::coding::{Coding, CodingError, Dictionary, decode, encode};

const CODINGS: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Dcz];
const CONTENT: &[u8] = include_bytes!("corpus/coding/dictionary");
const HASH: &str = include_str!("corpus/coding/dictionary.sha256");
/// Limit of a decoded body.
const LIMIT: usize = 4096;

static DICTIONARY: LazyLock<Dictionary> =
    LazyLock::new(|| Dictionary::read(CONTENT, HASH.trim_end()).expect("the hash is that of the dictionary"));

/// The first byte says the coding and the level, the rest is a body: it never decodes to more than
/// is allowed, and exactly its length is enough for what does decode. The same bytes as content
/// survive that coding, and one byte less than their length is not enough for them.
pub(crate) fn coding(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let (coding, level) = (CODINGS[usize::from(*first & 3)], i32::from(*first >> 4));
    let body = Bytes::copy_from_slice(body);
    let dictionary = Some(&*DICTIONARY);
    // Behind its header a frame of dcz is one like any other, with something to refer to.
    let framed = match coding {
        Coding::Dcz => encode(coding, &Bytes::new(), 1, dictionary).map(|empty| [&empty, &*body].concat().into()),
        _ => Ok(body.clone()),
    };
    for sent in [body.clone(), framed.expect("there is a dictionary")] {
        if let Ok(content) = decode(coding, &sent, LIMIT, dictionary) {
            assert!(content.len() <= LIMIT);
            assert_eq!(decode(coding, &sent, content.len(), dictionary).as_ref(), Ok(&content));
        }
    }
    let coded = encode(coding, &body, level, dictionary).expect("there is a dictionary");
    assert_eq!(decode(coding, &coded, body.len(), dictionary).as_ref(), Ok(&body));
    if let Some(less) = body.len().checked_sub(1) {
        assert_eq!(decode(coding, &coded, less, dictionary), Err(CodingError::TooLarge));
    }
}
