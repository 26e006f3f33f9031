//! Owns the names of what may go wrong, and which rules answer it.
//!
//! Before it: nothing. After it: [`super::plan`] draws windows of them, the world carries them out
//! and notes which took effect. Invariant: a fault counts as fired only when it did something that
//! somebody could notice.

use std::fmt;

macro_rules! faults {
    ($($name:ident $word:literal $rules:literal,)*) => {
        /// Kind of a fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Fault { $($name,)* }

        impl Fault {
            /// All of them, in the order of the protocol page.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, in words.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The rules that answer it.
            pub(crate) const fn rules(self) -> &'static str {
                match self { $(Self::$name => $rules,)* }
            }
        }
    };
}

faults! {
    LateWinner "late region wins the race" "R1 R4 R5",
    DuringFetch "announcement during a fetch" "R3",
    AbsentThenLagging "announcement for an absent key, then a miss at a lagging region" "R2",
    LateReader "late reader meets an old fill" "R3",
    OlderAfterNewer "older announcement after newer" "R1 R13",
    Duplicate "duplicate message" "R13",
    HourLate "hour-late message" "R9 R13",
    Replayed "replayed message" "R13",
    Lost "lost message" "R10 R16 R17",
    SubscriptionDeleted "subscription deleted" "R9 R10",
    SilentlyDead "subscription silently dead" "R9",
    IngestStalled "ingest stalled while heartbeats go on" "watermark",
    OneLiveOneBehind "start-up with one region live and one behind" "R5",
    Suspended "process suspended" "R9",
    ClockStep "clock step" "R9",
    PublisherSkew "publisher clock skew" "R9",
    ResubscribeWithHole "resubscribe with a hole" "R10 R11",
    AbsentAgainstPresent "404 against 200" "R6",
    DeletedAfterRecreation "DELETED after re-creation" "R6 R13",
    Refused "401 or 403 against 200" "race",
    OldNotModified "304 for an old version" "R7",
    IntermediaryAge "intermediary with Age" "R8",
    AnnouncerDies "announcer dies right after announcing" "race wait",
    FleetLags "announcer's own fleet lags" "R1 R5",
    Backup "region restored from backup" "R1 R15",
    MaxInMessage "version MAX in a message" "R15",
    MaxInReply "version MAX in a reply" "R15",
    TableOverflow "floor table overflow" "R2",
    EvictedMidFill "eviction in mid-fill" "R1 R3",
    Restart "restart" "R2 R11",
    ApplyFails "failed apply (certificate fetch)" "R12",
    Undecodable "undecodable message" "R14",
    Unrouted "unrouted message" "R14",
    RegionEtags "per-region ETags for the same body" "digests",
    ManyUrls "one record behind many URLs, one URL over many records" "index",
    Truncated "truncated winner" "race",
    Dripping "dripping winner" "race",
    MassWhileDying "mass announcement while a region dies" "budgets",
    HotKey "hot key announced faster than one fetch" "R3",
    PolicyRevoked "queue policy revoked" "R9",
    QueueDeleted "queue deleted by a janitor" "R10",
    OneQueueLost "one queue of three lost" "R10",
    Balancer "endpoint behind a balancer that sees only some messages" "R10",
    Reload "RELOAD after a silent change" "R18",
    Down "region down" "race",
    Slow "region slow" "race",
    AgedIntermediary "intermediary with Age far above worst_lag" "R5 R8 bound",
    FirstLost "first announcements of a new publisher lost everywhere" "R10",
    Unverifiable "deliveries that cannot be verified" "R9 R14",
    WriteThrough "write through the sidecar" "R1 R3",
    OwnWrite "no-cache after one's own write" "fills",
    Restored "all regions restored from backup" "R15 RESET",
    Recreated "record deleted and created anew at version 1" "R15 RESET",
    ReloadAll "RELOAD of a type or of everything behind old copies" "R8 R18",
    Part "part of a reply asked for" "R4 R8",
    TooLarge "reply too large to hold" "R4 R8",
    Mistyped "announcements under a type that no route names" "R21",
    Astray "announcements of keys that nobody reads" "R21",
    LetterCase "announcements of keys in another letter case" "R21",
    Directives "max-age or min-fresh in a request" "RFC 9111",
    Elsewhere "a region of another environment" "region-ahead",
    SameVersion "other content under the same version" "R17 R23",
    LateReset "RESET that is minutes late, and may come twice" "R13 R19",
    LostAnswer "write whose answer is lost" "R20",
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
