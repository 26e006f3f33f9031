//! The Protobuf wire format: tags, varints, and what stands behind them.

use super::error::Problem;
use crate::payload::limits::FORM_DEPTH;

/// Wire type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    Fixed64,
    Length,
    Group,
    Fixed32,
}

/// One field of a message: its number, and where its value lies in the body. Of a length-delimited
/// value or a group, what is inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) number: u32,
    pub(super) wire: Wire,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Reads fields between two places of a body.
pub(super) struct Items<'a> {
    pub(super) body: &'a [u8],
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Items<'_> {
    pub(super) fn next(&mut self) -> Result<Option<Item>, Problem> {
        if self.at >= self.end {
            return Ok(None);
        }
        match self.item(FORM_DEPTH)? {
            Some(item) => Ok(Some(item)),
            None => Err(Problem::NotProtobuf),
        }
    }

    /// `None` for the end of a group.
    fn item(&mut self, depth: usize) -> Result<Option<Item>, Problem> {
        let tag = u32::try_from(self.varint()?).map_err(|_| Problem::NotProtobuf)?;
        let number = tag >> 3;
        if number == 0 {
            return Err(Problem::NotProtobuf);
        }
        let start = self.at;
        let (wire, start, end) = match tag & 7 {
            0 => {
                self.varint()?;
                (Wire::Varint, start, self.at)
            }
            1 => (Wire::Fixed64, start, self.skip(8)?),
            2 => {
                let length = self.varint()?;
                let start = self.at;
                (Wire::Length, start, self.skip(length)?)
            }
            3 => (Wire::Group, start, self.group(number, depth)?),
            4 => {
                self.at = start;
                return Ok(None);
            }
            5 => (Wire::Fixed32, start, self.skip(4)?),
            _ => return Err(Problem::NotProtobuf),
        };
        Ok(Some(Item { number, wire, start, end }))
    }

    /// Passes over a group; returns where its content ends.
    fn group(&mut self, number: u32, depth: usize) -> Result<usize, Problem> {
        let depth = depth.checked_sub(1).ok_or(Problem::TooDeep)?;
        loop {
            let end = self.at;
            if self.item(depth)?.is_none() {
                self.at = end;
                let tag = self.varint()?;
                let is_ours = tag == u64::from(number << 3 | 4);
                return if is_ours { Ok(end) } else { Err(Problem::NotProtobuf) };
            }
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = *self.body[..self.end].get(self.at).ok_or(Problem::NotProtobuf)?;
            self.at += 1;
            // What does not fit into 64 bits is cut off, as Google's readers do.
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Problem::NotProtobuf)
    }

    fn skip(&mut self, length: u64) -> Result<usize, Problem> {
        let length = usize::try_from(length).map_err(|_| Problem::NotProtobuf)?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.end).ok_or(Problem::NotProtobuf)?;
        self.at = end;
        Ok(end)
    }

    pub(super) fn fixed32(&mut self) -> Result<u32, Problem> {
        let start = self.at;
        self.skip(4)?;
        Ok(u32::from_le_bytes(self.body[start..start + 4].try_into().expect("four bytes")))
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Problem> {
        let start = self.at;
        self.skip(8)?;
        Ok(u64::from_le_bytes(self.body[start..start + 8].try_into().expect("eight bytes")))
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

/// Puts the length of what was written since `start` before it.
pub(super) fn put_length(out: &mut Vec<u8>, start: usize) {
    let end = out.len();
    put_varint(out, (end - start) as u64);
    let width = out.len() - end;
    let mut varint = [0; 10];
    varint[..width].copy_from_slice(&out[end..]);
    out.copy_within(start..end, start + width);
    out[start..start + width].copy_from_slice(&varint[..width]);
}
