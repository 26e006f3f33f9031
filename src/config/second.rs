//! `second = { .. }` of a route: another way to the same records, and who answers meanwhile.

use url::Url;

use super::{Credentials, Form, PathTemplate};

/// `second` of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondWay {
    /// Its path, with the names of the route's own; `None` is the route's own.
    pub path: Option<PathTemplate>,
    /// What it is asked for, on a route with a message.
    pub form: Option<Form>,
    /// Another service; `None` asks the regions where they are.
    pub url: Option<UrlPerRegion>,
    /// It numbers versions in a way of its own: nothing is compared with what announcements state.
    pub has_own_versions: bool,
    /// What it is sent instead of the route's own.
    pub credentials: Option<Credentials>,
    pub way: Way,
    /// Of fills that stored something.
    pub check_share: Share,
    /// Of records.
    pub new_share: Share,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first.
    Old,
    /// The first, and some of its answers are compared with the second's.
    Check,
    /// The second, for a share of the records.
    New,
}

impl Way {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Check => "check",
            Self::New => "new",
        }
    }
}

/// A share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

/// A base URL in which `{region}` stands for the region's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPerRegion(pub String);

impl SecondWay {
    /// What it is asked for where the first way would be asked for `first`.
    pub fn form_for(&self, first: Form) -> Form {
        self.form.unwrap_or(first)
    }

    /// Whether it answers elsewhere: what the regions share with the sidecar is not for it.
    pub const fn is_another_service(&self) -> bool {
        self.url.is_some()
    }

    /// Whether both lead to the same place, so that one may serve what the other stored.
    pub fn leads_to_the_same(&self, other: &Self) -> bool {
        self.path == other.path
            && self.form == other.form
            && self.url == other.url
            && self.has_own_versions == other.has_own_versions
            && self.credentials == other.credentials
    }
}

impl Share {
    const ALL: u32 = 1_000_000;

    /// `share` is between 0 and 1.
    pub fn of(share: f64) -> Self {
        Self((share * f64::from(Self::ALL)).round() as u32)
    }

    /// Whether it takes what has this hash: always the same ones, and of a larger share more.
    pub const fn takes(self, hash: u64) -> bool {
        hash % (Self::ALL as u64) < self.0 as u64
    }
}

impl UrlPerRegion {
    /// The URL of one region; `None` if its name cannot stand there.
    pub fn of(&self, region: &str) -> Option<Url> {
        Url::parse(&self.0.replace("{region}", region)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_share_takes_all_that_a_smaller_one_took() {
        let taken = |share: Share| (0..1_000_000).step_by(7).filter(|hash| share.takes(*hash)).collect::<Vec<u64>>();
        let (tenth, half) = (taken(Share::of(0.1)), taken(Share::of(0.5)));
        assert!(half.starts_with(&tenth) && tenth.len() < half.len());
        assert_eq!(taken(Share::of(0.0)).len(), 0);
        assert_eq!(taken(Share::of(1.0)).len(), 1_000_000_usize.div_ceil(7));
    }
}
