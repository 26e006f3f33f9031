//! Places of the larger objects and lists of a body, so that a cut can step over them.

use crate::payload::limits::NESTING;
use crate::payload::projection::error::ProjectionError;
use crate::payload::projection::json::{Sign, next_sign, string_end};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    start: u32,
    end: u32,
}

#[cfg(test)]
impl Place {
    pub(super) fn span(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The containers from some place of the body on, in the order in which they begin.
#[derive(Clone, Copy)]
pub(super) struct Containers<'i>(&'i [Place]);

impl<'i> Containers<'i> {
    pub(super) fn new(places: &'i [Place]) -> Self {
        Self(places)
    }

    /// End of the container at `at`, if it is known. Asked in ascending order: it forgets what lies
    /// before.
    pub(super) fn end_of(&mut self, at: usize) -> Option<usize> {
        *self = self.from(at);
        let place = self.0.first().filter(|place| place.start as usize == at)?;
        Some(place.end as usize)
    }

    /// Those from `at` on.
    pub(super) fn from(self, at: usize) -> Self {
        // In a list of small elements the next place is often far ahead.
        if self.0.first().is_none_or(|place| place.start as usize >= at) {
            return self;
        }
        Self(&self.0[self.0.partition_point(|place| (place.start as usize) < at)..])
    }
}

/// The places of the largest containers of `body`, `most` of them at most and none of less than
/// `least` bytes. One pass over the body.
pub(super) fn places(body: &[u8], most: usize, mut least: usize) -> Result<Box<[Place]>, ProjectionError> {
    let mut places = Vec::with_capacity(most);
    let (mut at, mut depth) = (0, 0_usize);
    let mut starts = [0; NESTING];
    while let Some((sign, place)) = next_sign(body, at) {
        at = place + 1;
        match sign {
            Sign::Quote => at = string_end(body, at)?,
            Sign::Open => {
                // What lies deeper than a cut goes is part of what is around it.
                if let Some(start) = starts.get_mut(depth) {
                    *start = place;
                }
                depth += 1;
            }
            Sign::Close => {
                depth = depth.checked_sub(1).ok_or(ProjectionError::Malformed)?;
                let Some(start) = starts.get(depth) else { continue };
                while at - start >= least && places.len() == most {
                    least *= 2;
                    places.retain(|it: &Place| (it.end - it.start) as usize >= least);
                }
                if at - start >= least {
                    places.push(Place { start: *start as u32, end: at as u32 });
                }
            }
            Sign::Other => {}
        }
    }
    if depth > 0 {
        return Err(ProjectionError::Malformed);
    }
    places.sort_unstable_by_key(|place| place.start);
    Ok(places.into_boxed_slice())
}
