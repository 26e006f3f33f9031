//! Starting points in a shard, and positions as text: a sequence number, and the time by which
//! everything that had arrived had been read, because a sequence number does not tell its age.

use std::time::Duration;

use aws_sdk_kinesis::primitives::DateTime;

use super::super::super::Position;
use crate::model::time::Wall;

/// Behind what Kinesis names the beginning of a shard.
const BEGINNING: &str = "0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    RegionViews,
    At(Wall),
    After { sequence: String, through: Wall },
}

impl Start {
    /// `None` if it is a position that no feed of this kind gave.
    pub(super) fn of(position: &Position) -> Option<Self> {
        Some(match position {
            Position::Oldest => Self::RegionViews,
            Position::At(wall) => Self::At(*wall),
            Position::After(text) => {
                let (sequence, through) = text.split_once('@')?;
                let is_number = !sequence.is_empty() && sequence.bytes().all(|byte| byte.is_ascii_digit());
                let through = Wall::from_millis(through.parse().ok()?);
                is_number.then(|| Self::After { sequence: sequence.to_owned(), through })?
            }
        })
    }

    /// Time by which everything that had arrived is known to a reader that starts here.
    pub(super) fn through(&self) -> Wall {
        match self {
            Self::RegionViews => Wall::from_millis(0),
            Self::At(through) | Self::After { through, .. } => *through,
        }
    }

    /// True if what arrived next may be gone by now.
    pub(super) fn is_trimmed(&self, now: Wall, retention: Duration) -> bool {
        *self != Self::RegionViews && now.since(self.through()) >= retention
    }

    /// The position once the shard is read `through` that time, and up to `sequence` if anything
    /// was read.
    pub(super) fn moved(&self, sequence: Option<&str>, through: Wall) -> Self {
        let through = through.max(self.through());
        match (sequence.filter(|sequence| *sequence != BEGINNING), self) {
            (Some(sequence), _) => Self::After { sequence: sequence.to_owned(), through },
            (None, Self::After { sequence, .. }) => Self::After { sequence: sequence.clone(), through },
            // From the beginning too: a reader that went on from there later might miss what was
            // trimmed.
            (None, Self::At(_) | Self::RegionViews) if through > Wall::default() => Self::At(through),
            (None, start) => start.clone(),
        }
    }

    pub(super) fn position(&self) -> Position {
        match self {
            Self::RegionViews => Position::Oldest,
            Self::At(wall) => Position::At(*wall),
            Self::After { sequence, through } => Position::After(format!("{sequence}@{}", through.as_millis())),
        }
    }
}

pub(super) fn date_time(wall: Wall) -> DateTime {
    DateTime::from_millis(wall.as_millis().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn wall(millis: u64) -> Wall {
        Wall::from_millis(millis)
    }

    #[test]
    fn position_round_trips() {
        for start in
            [Start::RegionViews, Start::At(wall(5)), Start::RegionViews.moved(Some("49590338271490256608"), wall(7))]
        {
            assert_eq!(Start::of(&start.position()), Some(start));
        }
        for text in ["", "7", "@7", "x@7", "7@", "7@x", "-7@7"] {
            assert_eq!(Start::of(&Position::After(text.to_owned())), None, "{text}");
        }
    }

    #[test]
    fn silence_only_makes_positions_younger() {
        let start = Start::RegionViews.moved(None, wall(10));
        assert_eq!(start, Start::At(wall(10)));
        let start = start.moved(None, wall(20));
        assert_eq!(start, Start::At(wall(20)));
        let start = start.moved(Some("3"), wall(15));
        assert_eq!(start, Start::After { sequence: "3".to_owned(), through: wall(20) });
        assert_eq!(start.moved(Some(BEGINNING), wall(30)).position(), Position::After("3@30".to_owned()));
    }

    #[test]
    fn position_is_trimmed_beyond_retention() {
        let now = wall(2 * DAY.as_millis() as u64);
        let behind =
            |span: Duration| Start::RegionViews.moved(Some("3"), wall(now.as_millis() - span.as_millis() as u64));
        assert!(behind(DAY).is_trimmed(now, DAY));
        assert!(!behind(DAY - Duration::from_millis(1)).is_trimmed(now, DAY));
        assert!(Start::At(wall(0)).is_trimmed(now, DAY));
        assert!(!Start::RegionViews.is_trimmed(now, DAY));
    }
}
