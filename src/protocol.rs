//! The freshness protocol of `docs/freshness.md` as pure code: no I/O, no clock of its own, nothing
//! random. [`crate::sidecar::announcements`] and a ticker feed in [events](event::Event), `app`
//! carries out the [actions](event::Action), and fills and hits read the records and the
//! [`region_views`]. [`Freshness`] ties the parts together. Driven from one thread, the same events at
//! the same times always have the same effect.
//!
//! Floors and generations are stored before the region_views that vouches for them is published, and
//! both before `step` returns.
//!
//! | rule | where |
//! | --- | --- |
//! | R1 floor | `merge` raises it; `record` ([`record::Snapshot::matches`]) compares; `standing::assess` and `vote` obey |
//! | R2 marker | `merge::announce` leaves it, `table` keeps it, `records` remembers lost slots, `standing::earn` obeys |
//! | R3 fence | `merge` moves the generation, `standing::admits` compares |
//! | R4 announcer first | `merge` keeps the marker, `vote` ranks |
//! | R5 earning | `standing::earn`, over what `region` calls LIVE and unbroken |
//! | R6 absence | `merge` ([`record::Snapshot::changed`], [`record::Marker::deleted`]), `vote` |
//! | R7 304, R8 age | `vote`; `merge` sets the marker's time |
//! | R9 lease | `region` dates the proof, `standing::assess` compares with now |
//! | R10 epoch | `region` moves it, `publisher` and `publishers` find holes, `standing::assess` compares |
//! | R11 order | `region`: a subscription starts without proof, an entry from before LIVE earns nothing (`standing::earn`) |
//! | R12 acknowledge | [`Freshness::step`] returns once the event is applied; only then does the announce path acknowledge |
//! | R13 merge by maximum | `merge` |
//! | R14 unread | `region`, `unread` |
//! | R15 escape | `merge` and `doubts`; `standing` keeps what is doubted PROVISIONAL |
//! | R16 hard TTL | `standing::assess` |
//! | R17 audit | `audit` judges and measures; [`crate::fill::audit`] asks the regions, in the background |
//! | R18 RELOAD, R19 RESET | `merge::reload`, `merge::reset`, `records::recall`; `recalls` for what nothing holds; `stamp` and `arrivals` for what comes late |
//! | R20 own writes | [`Freshness::wrote`]; `request::write` says when |
//! | R21 wiring | `wiring`; `standing::Assessment` |
//! | R22 grants | `grants_floor`; [`crate::race`] compares permissions, [`crate::fill::permits`] remembers them |
//! | R23 one content | `audit`; [`crate::fill::audit`] asks for it, and compares after other races |
//! | bound | `publisher` (watermark), `publishers` (oldest of them), `standing::Assessment` |

pub mod announcement;
mod arrivals;
pub(crate) mod audit;
mod doubts;
pub mod event;
mod flood;
pub(crate) mod freshness;
pub(crate) mod grants_floor;
pub(crate) mod holding;
pub mod label;
pub mod limits;
mod merge;
mod publisher;
mod publishers;
mod recalls;
pub mod record;
mod records;
mod region;
pub mod region_views;
mod stamp;
pub mod standing;
mod table;
mod tuning;
mod unread;
pub mod vote;
pub mod wiring;

pub use freshness::{Freshness, Settings};
pub use records::RecordCapacity;
