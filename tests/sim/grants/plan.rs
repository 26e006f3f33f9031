//! Meaning of a seed: documents of grants, when each region has them, what goes wrong, and who
//! reads when. A function of the seed.

use std::time::Duration;

use fastrand::Rng;

use super::super::plan::REGIONS;

/// The calendar at the start, in Unix milliseconds.
pub(super) const EPOCH: u64 = 1_800_000_000_000;
/// Callers with a token each.
pub(super) const CALLERS: usize = 3;
/// Views; the names of their routes' record types.
pub(super) const VIEWS: [&str; 3] = ["alpha", "beta", "gamma"];
/// The view whose stored replies all callers share who may read it.
pub(super) const SHARED: usize = 2;
/// The caller that the sidecar itself is, and the view that it reads for everybody.
pub(super) const OWN: (usize, usize) = (CALLERS, 1);
pub(super) const WORST_LAG: Duration = Duration::from_secs(30);
pub(super) const RECHECK: Duration = Duration::from_secs(60);
pub(super) const MAX_AGE: Duration = Duration::from_secs(300);
const SPAN: Duration = Duration::from_secs(1_200);
/// Lead of another environment's document.
const ELSEWHERE: u64 = 100_000;

/// Who may read which view.
pub(super) type Allowed = [[bool; VIEWS.len()]; CALLERS + 1];

/// One version of the grants.
pub(super) struct Document {
    /// Time of its writing: its version says the same.
    pub(super) written: Duration,
    pub(super) allowed: Allowed,
    /// Arrival at each region.
    pub(super) arrives: [Duration; REGIONS],
    /// Time at which the sidecar hears each region's announcement, if it does.
    pub(super) heard: [Option<Duration>; REGIONS],
}

impl Document {
    pub(super) fn version(&self) -> u64 {
        EPOCH + self.written.as_millis() as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The region does not answer.
    Off,
    /// Its mode is `off`: it answers everybody, and states nothing.
    Silent,
    /// Its mode is `observe`: it answers everybody, and states its version.
    Observing,
    /// Its settings are wrong: it refuses everybody, by the version that it has.
    Refusing,
    /// It has another environment's document, which knows nobody, and announces it.
    Elsewhere,
    /// Grants reach it late.
    Lagging,
    /// Nothing reaches the sidecar: no region, no announcement.
    CutOff,
}

const FAULTS: [Fault; 7] =
    [Fault::Off, Fault::Silent, Fault::Observing, Fault::Refusing, Fault::Elsewhere, Fault::Lagging, Fault::CutOff];

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) region: usize,
    pub(super) from: Duration,
    pub(super) until: Duration,
}

impl Window {
    /// True if it was open at some time between these two.
    pub(super) fn touches(&self, from: Duration, until: Duration) -> bool {
        self.from <= until && from <= self.until
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Plain,
    Conditional,
    OnlyIfCached,
    Insisting,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) caller: usize,
    pub(super) view: usize,
    pub(super) key: usize,
    pub(super) manner: Manner,
}

impl Read {
    /// Who asks the regions.
    pub(super) fn asker(&self) -> usize {
        if self.view == OWN.1 { OWN.0 } else { self.caller }
    }
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Heard { region: usize, version: u64 },
    Read(Read),
}

#[derive(Clone, Copy)]
pub(super) struct Happening {
    pub(super) at: Duration,
    pub(super) what: What,
}

pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) documents: Vec<Document>,
    pub(super) windows: Vec<Window>,
    reads: Vec<(Duration, Read)>,
}

impl Plan {
    /// Everything that happens to the sidecar, in its order.
    pub(super) fn happenings(&self) -> Vec<Happening> {
        let reads = self.reads.iter().map(|(at, read)| Happening { at: *at, what: What::Read(*read) });
        let heard = self.documents.iter().flat_map(|document| {
            let version = document.version();
            let regions = document.heard.iter().enumerate();
            regions
                .filter_map(move |(region, at)| Some(Happening { at: (*at)?, what: What::Heard { region, version } }))
        });
        let elsewhere = self.windows.iter().filter(|window| window.fault == Fault::Elsewhere).map(|window| {
            let version = EPOCH + window.from.as_millis() as u64 + ELSEWHERE;
            Happening { at: window.from, what: What::Heard { region: window.region, version } }
        });
        let mut all: Vec<Happening> = reads.chain(heard).chain(elsewhere).collect();
        all.sort_by_key(|happening| happening.at);
        all
    }

    /// The document that a region decides by, and its version; `None` before the first.
    pub(super) fn in_use(&self, region: usize, at: Duration) -> Option<&Document> {
        self.documents.iter().rev().find(|document| document.arrives[region] <= at)
    }

    /// The document that was written last.
    pub(super) fn newest(&self, at: Duration) -> Option<usize> {
        self.documents.iter().rposition(|document| document.written <= at)
    }

    pub(super) fn has(&self, fault: Fault, region: usize, at: Duration) -> bool {
        self.windows
            .iter()
            .any(|it| it.fault == fault && (it.region == region || fault == Fault::CutOff) && it.touches(at, at))
    }

    /// Version of the other environment's document.
    pub(super) fn elsewhere(&self, region: usize, at: Duration) -> Option<u64> {
        let window = self
            .windows
            .iter()
            .find(|it| it.fault == Fault::Elsewhere && it.region == region && it.touches(at, at))?;
        Some(EPOCH + window.from.as_millis() as u64 + ELSEWHERE)
    }
}

fn between(rng: &mut Rng, from: Duration, until: Duration) -> Duration {
    from + (until - from).mul_f64(rng.f64())
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The plan of `seed`.
pub(super) fn draw(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed ^ 0x6772_616e);
    let windows = draw_windows(&mut rng);
    let documents = draw_documents(&mut rng, &windows);
    let mut reads = Vec::new();
    let mut at = secs(5);
    while at < SPAN {
        at += between(&mut rng, Duration::from_millis(100), secs(4));
        let (view, key) = (rng.usize(0..VIEWS.len()), rng.usize(0..3));
        // Some come together, and may share a fill.
        let count = if rng.u32(0..6) == 0 { rng.usize(2..=5) } else { 1 };
        for _ in 0..count {
            reads.push((at, Read { caller: rng.usize(0..CALLERS), view, key, manner: draw_manner(&mut rng) }));
        }
    }
    Plan { seed, documents, windows, reads }
}

fn draw_manner(rng: &mut Rng) -> Manner {
    match rng.u32(0..10) {
        0 => Manner::Conditional,
        1 => Manner::OnlyIfCached,
        2 => Manner::Insisting,
        _ => Manner::Plain,
    }
}

/// Up to three windows; together they leave one region well, unless everything is cut off.
fn draw_windows(rng: &mut Rng) -> Vec<Window> {
    let well = rng.usize(0..REGIONS);
    (0..rng.usize(0..=3))
        .map(|_| {
            let fault = FAULTS[rng.usize(0..FAULTS.len())];
            let other = rng.usize(0..REGIONS - 1);
            // Two regions that are wrong are right about each other.
            let other = if matches!(fault, Fault::Elsewhere | Fault::Refusing) { 0 } else { other };
            let region = (well + 1 + other) % REGIONS;
            let from = between(rng, secs(60), secs(900));
            let longest = if fault == Fault::CutOff { secs(600) } else { secs(240) };
            Window { fault, region, from, until: from + between(rng, secs(10), longest) }
        })
        .collect()
}

fn draw_documents(rng: &mut Rng, windows: &[Window]) -> Vec<Document> {
    let mut allowed: Allowed = [[true; VIEWS.len()]; CALLERS + 1];
    let mut documents: Vec<Document> = Vec::new();
    let mut written = Duration::ZERO;
    while written < SPAN {
        let arrives: [Duration; REGIONS] = std::array::from_fn(|region| {
            let lags = windows.iter().find(|window| {
                window.fault == Fault::Lagging && window.region == region && window.touches(written, written)
            });
            let arrives = written + between(rng, Duration::from_millis(100), secs(3));
            let arrives = lags.map_or(arrives, |window| arrives.max(window.until));
            // Nothing overtakes on the way.
            documents.last().map_or(arrives, |before| arrives.max(before.arrives[region]))
        });
        let heard = std::array::from_fn(|region| {
            let at = arrives[region] + between(rng, Duration::from_millis(10), secs(1));
            let is_lost = rng.u32(0..20) == 0
                || windows.iter().any(|window| window.fault == Fault::CutOff && window.touches(at, at));
            (!is_lost).then_some(at)
        });
        documents.push(Document { written, allowed, arrives, heard });
        written += between(rng, secs(20), secs(150));
        let (caller, view) = (rng.usize(0..=CALLERS), rng.usize(0..VIEWS.len()));
        allowed[caller][view] = !allowed[caller][view];
    }
    documents
}
