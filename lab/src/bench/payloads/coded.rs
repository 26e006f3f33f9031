//! Replies in one form under one content coding: how long they become, and what that costs whom.

use std::hint::black_box;
use std::io::Read;

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use nearside::payload::coding::{Coding, CodingError, Dictionary, decode, encode};

use super::airports::{AirportSet, Airports, WireForm};
use super::cpu::CpuBudget;

/// A content coding at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodingLevel {
    pub words: &'static str,
    pub coding: BenchCoding,
    pub level: i32,
    /// Longer bodies take too long to compress to be measured.
    pub at_most: usize,
}

/// Measured content codings: those that regions are asked for, and Brotli, which no region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchCoding {
    Ours(Coding),
    Brotli,
}

impl BenchCoding {
    fn encoded(self, body: &Bytes, level: i32, dictionary: Option<&Dictionary>) -> Result<Bytes, CodingError> {
        let Self::Ours(coding) = self else {
            let parameters = BrotliEncoderParams { quality: level, ..BrotliEncoderParams::default() };
            let mut coded = Vec::new();
            brotli::BrotliCompress(&mut &**body, &mut coded, &parameters).map_err(|_| CodingError::NoMemory)?;
            return Ok(coded.into());
        };
        encode(coding, body, level, dictionary)
    }

    fn decoded(self, body: &Bytes, most: usize, dictionary: Option<&Dictionary>) -> Result<Bytes, CodingError> {
        let Self::Ours(coding) = self else {
            let mut plain = Vec::with_capacity(most);
            let mut from = brotli::Decompressor::new(&**body, READ_BYTES);
            from.read_to_end(&mut plain).map_err(|_| CodingError::Damaged)?;
            return Ok(plain.into());
        };
        decode(coding, body, most, dictionary)
    }
}

const fn ours(words: &'static str, coding: Coding, level: i32, at_most: usize) -> CodingLevel {
    CodingLevel { words, coding: BenchCoding::Ours(coding), level, at_most }
}

pub(crate) const SMALL: CodingLevel = ours("zstd 3, dictionary", Coding::Dcz, 3, usize::MAX);
pub(crate) const ZSTD: CodingLevel = ours("zstd 3", Coding::Zstd, 3, usize::MAX);
pub(crate) const SMALLEST: CodingLevel = ours("zstd 19, dictionary", Coding::Dcz, 19, 32 << 10);
pub(crate) const LEVELS: [CodingLevel; 6] = [
    ours("identity", Coding::Identity, 0, usize::MAX),
    ours("gzip 6", Coding::Gzip, 6, usize::MAX),
    CodingLevel { words: "brotli 5", coding: BenchCoding::Brotli, level: 5, at_most: usize::MAX },
    ZSTD,
    SMALL,
    SMALLEST,
];
/// Size of a read of Brotli's decoder, in bytes.
const READ_BYTES: usize = 4096;

/// Average cost of a reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodedCost {
    /// On the wire: the body alone.
    pub bytes: f64,
    /// Length as JSON without a coding.
    pub json_bytes: f64,
    /// CPU time of who answers: to write it and to compress it.
    pub encode_us: f64,
    pub decompress_us: f64,
    /// CPU time of who asks: to decompress it and to read all of it.
    pub decode_us: f64,
}

/// Replies in one form, and what it takes to write and to read one.
pub(crate) struct WrittenReplies<'a> {
    set: &'a AirportSet,
    form: WireForm,
    bodies: Vec<Bytes>,
    json_bytes: f64,
    write_us: f64,
    pub read_us: f64,
}

impl<'a> WrittenReplies<'a> {
    pub(crate) fn new(set: &'a AirportSet, form: WireForm, replies: &[Airports], budget: CpuBudget) -> Self {
        let bodies = written(form, replies);
        let json_bytes = mean(&written(WireForm::Json, replies));
        let write_us = budget.spent_us(|| {
            black_box(written(form, replies));
        });
        let read_us = budget.spent_us(|| bodies.iter().for_each(|body| drop(black_box(form.read(body)))));
        let each = 1.0 / replies.len() as f64;
        Self { set, form, bodies, json_bytes, write_us: write_us * each, read_us: read_us * each }
    }

    /// Measures a coding, and that what it makes decodes to what it was made of.
    pub(crate) fn under(&self, level: CodingLevel, budget: CpuBudget) -> Result<CodedCost, CodingError> {
        let dictionary = Some(self.set.dictionary(self.form));
        let CodingLevel { coding, level, .. } = level;
        let coded = coded(&self.bodies, coding, level, dictionary)?;
        for (body, plain) in coded.iter().zip(&self.bodies) {
            if coding.decoded(body, plain.len(), dictionary)? != plain {
                return Err(CodingError::Damaged);
            }
        }
        let each = 1.0 / self.bodies.len() as f64;
        let (mut compress_us, mut decompress_us) = (0.0, 0.0);
        if coding != BenchCoding::Ours(Coding::Identity) {
            // It was done before, without an error.
            compress_us =
                budget.spent_us(|| drop(black_box(self::coded(&self.bodies, coding, level, dictionary)))) * each;
            decompress_us = each
                * budget.spent_us(|| {
                    for (body, plain) in coded.iter().zip(&self.bodies) {
                        drop(black_box(coding.decoded(body, plain.len(), dictionary)));
                    }
                });
        }
        Ok(CodedCost {
            bytes: mean(&coded),
            json_bytes: self.json_bytes,
            encode_us: self.write_us + compress_us,
            decompress_us,
            decode_us: decompress_us + self.read_us,
        })
    }
}

/// Mean lengths of single records as JSON, under a coding and without.
pub(crate) fn single_records(set: &AirportSet, level: CodingLevel, count: usize) -> Result<(f64, f64), CodingError> {
    let records: Vec<Bytes> = set
        .records()
        .iter()
        .take(count)
        .map(|record| Bytes::from(serde_json::to_vec(record).expect("strings and finite numbers")))
        .collect();
    let coded = coded(&records, level.coding, level.level, Some(set.dictionary(WireForm::Json)))?;
    Ok((mean(&coded), mean(&records)))
}

fn written(form: WireForm, replies: &[Airports]) -> Vec<Bytes> {
    replies.iter().map(|reply| form.written(reply)).collect()
}

fn coded(
    bodies: &[Bytes],
    coding: BenchCoding,
    level: i32,
    dictionary: Option<&Dictionary>,
) -> Result<Vec<Bytes>, CodingError> {
    bodies.iter().map(|body| coding.encoded(body, level, dictionary)).collect()
}

fn mean(bodies: &[Bytes]) -> f64 {
    bodies.iter().map(Bytes::len).sum::<usize>() as f64 / bodies.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::airports::tests::made_up;
    use super::*;

    const BUDGET: CpuBudget = CpuBudget { parts: 1, part: Duration::ZERO };

    #[test]
    fn every_coding_measured_identity_costs_nothing() {
        let set = made_up();
        let replies = set.replies(1000, 4);
        for form in WireForm::ALL {
            let written = WrittenReplies::new(&set, form, &replies, BUDGET);
            let identity = written.under(LEVELS[0], BUDGET).unwrap();
            assert!(identity.decompress_us.abs() < 1e-9 && identity.encode_us > 0.0, "{identity:?}");
            assert!((identity.bytes < identity.json_bytes) == (form == WireForm::Protobuf), "{identity:?}");
            for level in &LEVELS[1..] {
                let cost = written.under(*level, BUDGET).unwrap();
                assert!(cost.bytes < identity.bytes && cost.decompress_us > 0.0, "{level:?}: {cost:?}");
                assert!(cost.decode_us > cost.decompress_us, "{level:?}: {cost:?}");
            }
        }
    }

    #[test]
    fn each_record_carries_dcz_header() {
        let (coded, plain) = single_records(&made_up(), SMALL, 50).unwrap();
        assert!(coded > 40.0 && coded < plain, "{coded} of {plain}");
    }
}
