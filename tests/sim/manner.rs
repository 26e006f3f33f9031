//! Owns how a reader asks: in which form, for which fields, for how many keys at once, and as whom.
//!
//! Before it: a [`Read`]. After it: [`super::subject`] asks like that. Invariant: it follows from
//! what the read is anyway. No dice are thrown, so that a seed stays the same plan.

use super::plan::{Plan, Read, Wish};

/// Shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As the regions send it.
    Plain,
    /// As Protobuf.
    Protobuf,
    /// These fields.
    Fields(&'static str),
}

/// Manner of a reader's request.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// Shape that the reader asks for.
    pub(crate) shape: Shape,
    /// The keys of his batch; none of who sends a GET.
    pub(crate) keys: Vec<usize>,
    /// True if the parts of the batch are to have the lines that a GET's answer has.
    pub(crate) has_heads: bool,
    /// Who he is, where that tells readers apart.
    pub(crate) who: &'static str,
}

impl Manner {
    /// Every third reader asks in a batch, most of them for one key; where routes have shapes one
    /// in eight wants Protobuf, one in eight some fields. What is too large to hold, ranges and pairs no batch brings.
    pub(crate) fn of(plan: &Plan, read: Read) -> Self {
        let lot = read.at.as_micros() as usize + read.key;
        let mixed = (lot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let who = if read.view == 1 && plan.has_shapes() { ["ada", "bob"][die(mixed, 20, 2) as usize] } else { "" };
        let mut manner = Self { shape: Shape::Plain, keys: Vec::new(), has_heads: true, who };
        if matches!(read.wish, Wish::Part) || plan.is_large(read.key) {
            return manner;
        }
        manner.shape = match die(mixed, 32, 8) {
            _ if !plan.has_shapes() => Shape::Plain,
            0 => Shape::Protobuf,
            1 => Shape::Fields(["records,who", "who,records.face"][die(mixed, 40, 2) as usize]),
            _ => Shape::Plain,
        };
        if read.view != 2 && lot.is_multiple_of(3) {
            manner.keys.push(read.key);
            if die(mixed, 44, 12) == 0 {
                manner.has_heads = die(mixed, 48, 2) == 0;
                manner.keys.extend(others(plan, read, 2 + die(mixed, 52, 5) as usize));
            }
        }
        manner
    }

    /// True if the body is read: where it may be another's than its head says. To read all of them
    /// would be a tenth of a campaign.
    pub(crate) fn reads_body(&self) -> bool {
        self.shape != Shape::Plain || !self.who.is_empty() || self.keys.len() > 1 || !self.has_heads
    }
}

/// A number below `sides`, from the bits of `mixed` above `bit`.
const fn die(mixed: u64, bit: u32, sides: u64) -> u64 {
    (mixed >> bit) % sides
}

/// Two more: the next one, and one that is so many further on.
fn others(plan: &Plan, read: Read, far: usize) -> impl Iterator<Item = usize> {
    // Few records have a second view.
    let step = if read.view == 1 { 3 } else { 1 };
    let keys = plan.truth.keys() / step * step;
    let after = [1, far].map(|steps| (read.key + steps * step) % keys);
    after.into_iter().filter(|key| !plan.is_large(*key))
}
