//! A finding, and everything that is checked.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Check {
    /// AWS refuses what the subscription needs.
    Access,
    /// Messages arrive that cannot be verified.
    Unverified,
    /// No heartbeat arrives.
    HeartbeatsMissing,
    NumbersMissing,
    /// Heartbeats carry no `ingestedThrough`.
    ThroughMissing,
    Undecodable,
    /// An announced record type is in no route, while a routed type is not announced or is spelt
    /// almost the same.
    TypeUnrouted,
    /// The announced keys are not the keys that are read.
    KeysUnmatched,
    /// Records change, and nobody announces it.
    Unannounced,
    /// Announcements state versions, replies do not.
    VersionsMissing,
    /// Replies state versions, announcements do not.
    VersionsUnannounced,
    /// Most of the last requests to a region failed.
    RegionFails,
    /// A region answers 404, 401 or some other status where the others have the record.
    RegionOdd,
    /// A region shows versions that nobody announced and no other region reaches.
    RegionAhead,
    /// A region compresses replies in a way that nobody here can take off.
    Coding,
    /// A region does not show what its topic announces.
    TopicSwapped,
    /// This host's clock or a region's is wrong.
    Clock,
    /// A cache stands in front of a region.
    Aged,
    /// No request matched the route.
    RouteUnmatched,
    /// Every region refuses, perhaps because a caller's headers were not forwarded.
    Refused,
    /// No region ever had what the route's paths show.
    Absent,
    /// Callers send headers that may change answers, and their requests are passed on.
    HeaderPassed,
    /// Callers' tokens are not verified, and their requests are passed on.
    CallersUnverified,
    /// Replies vary by a header that is not forwarded.
    Vary,
    NoStore,
    /// Regions state no grants, and replies are shared under permits alone.
    GrantsUnstated,
    /// Replies are too large to hold.
    TooLarge,
    /// All regions answer with lower versions than before.
    VersionsBack,
    /// All regions show other content than before under the same version.
    SameVersionDiffers,
}

impl Check {
    /// Title for `nearside doctor`: a sentence that is true when all is well.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Access => "AWS lets this process subscribe",
            Self::Unverified => "messages can be verified",
            Self::HeartbeatsMissing => "heartbeats arrive",
            Self::NumbersMissing => "announcements are numbered",
            Self::ThroughMissing => "heartbeats say ingestedThrough",
            Self::Undecodable => "announcements can be read",
            Self::TypeUnrouted => "announced record types are those of the routes",
            Self::KeysUnmatched => "announced keys are the keys that are read",
            Self::Unannounced => "what changes is announced",
            Self::VersionsMissing => "replies state versions",
            Self::VersionsUnannounced => "announcements state versions",
            Self::RegionFails => "the region answers",
            Self::RegionOdd => "the region answers as the others do",
            Self::RegionAhead => "the others reach the region's versions",
            Self::Coding => "compressed replies can be decompressed",
            Self::TopicSwapped => "the region shows what its topic announces",
            Self::Clock => "clocks agree",
            Self::Aged => "no cache stands before the region",
            Self::RouteUnmatched => "paths match the route",
            Self::Refused => "regions let the callers in",
            Self::Absent => "regions have what the route's paths show",
            Self::HeaderPassed => "callers' headers are sent, ignored or known to change nothing",
            Self::CallersUnverified => "callers' tokens can be verified",
            Self::Vary => "what replies vary by is forwarded",
            Self::NoStore => "replies may be stored",
            Self::GrantsUnstated => "regions say by which grants they answer",
            Self::TooLarge => "replies can be held",
            Self::VersionsBack => "versions only grow",
            Self::SameVersionDiffers => "a version stands for one content",
        }
    }

    /// True if stored entries may miss changes although the topics are alive.
    pub const fn hides_changes(self) -> bool {
        // `Undecodable` is not among these: it moves the epoch, so stored entries are asked about
        // again.
        matches!(self, Self::TypeUnrouted | Self::KeysUnmatched | Self::Unannounced | Self::TopicSwapped)
    }

    /// True if it can make stored answers older than they say, or keep them old for longer.
    pub const fn touches_freshness(self) -> bool {
        !matches!(
            self,
            Self::RouteUnmatched
                | Self::Refused
                | Self::Absent
                | Self::HeaderPassed
                | Self::CallersUnverified
                | Self::Vary
                | Self::NoStore
                | Self::GrantsUnstated
                | Self::TooLarge
                | Self::RegionFails
                | Self::Coding
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Serialized as its word.
    #[serde(serialize_with = "word")]
    pub check: Check,
    /// The region, route or record type.
    pub subject: String,
    pub saw: String,
    pub advice: String,
}

fn word<S: serde::Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.into_str())
}

impl Finding {
    pub fn line(&self) -> String {
        format!("{}: {}; {}", self.subject, self.saw, self.advice)
    }
}
