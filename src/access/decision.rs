//! Decides whether rights cover what a request needs: by both alone, before anything is looked up.

use std::fmt;

use super::grants::{May, Rights};

/// Right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'n> {
    /// To read this view at a region.
    Read(&'n str),
    /// To write records of this type at the catalogue, and to read them and their history there.
    Write(&'n str),
    May(May),
    /// To have one of these rights.
    AnyOf(&'n [May]),
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(view) => write!(f, "read {view}"),
            Self::Write(record_type) => write!(f, "write {record_type}"),
            Self::May(right) => f.write_str((*right).into()),
            Self::AnyOf(rights) => {
                let rights: Vec<&str> = rights.iter().map(|right| (*right).into()).collect();
                f.write_str(&rights.join(" or "))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Granted,
    Refused,
}

/// The decision for who has these rights, or none.
#[must_use]
pub fn decide(rights: Option<&Rights>, need: &Need<'_>) -> Decision {
    let is_granted = rights.is_some_and(|rights| {
        !rights.is_stopped()
            && match need {
                Need::Read(view) => rights.reads(view),
                Need::Write(record_type) => rights.writes(record_type),
                Need::May(right) => rights.may(*right),
                Need::AnyOf(any) => any.iter().any(|right| rights.may(*right)),
            }
    });
    if is_granted { Decision::Granted } else { Decision::Refused }
}
