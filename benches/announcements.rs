//! Rate of announcements on one core: from the verified text to applied, and from the signed
//! envelope to its receipt.
//!
//! A pass is a fresh sidecar and messages that nothing has seen: a message that comes again is a
//! copy and costs less. Only the pass is timed, not what it needs. *Distinct keys* are records that
//! nobody holds, each announced once (new memory in the floor table each time); *hot keys* are a
//! few that entries hold, announced over and over.
//!
//! The rates that were asked for at first are printed in the end: 50,000/s applied, 20,000/s
//! verified and applied.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, SamplingMode, Throughput, criterion_group};
use nearside::aws::certificate::fetch::Fetcher;
use nearside::aws::envelope::SignatureVersion;
use nearside::aws::remembered::Remembered;
use nearside::aws::verify::Verified;
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::announcement::encode_json;
use nearside::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};
use nearside::protocol::event::{Event, Says};
use nearside::protocol::record::Record;
use nearside::request::settings::Settings;
use nearside::sidecar::announcements::apply::{Applied, Applier};
use nearside::sidecar::announcements::intake::VerifyingIntake;
use nearside::sidecar::announcements::{Disposition, Intake};
use nearside_lab::signer::Signer;

mod live_sidecar;
use live_sidecar::{TOPICS, config};

const CERTIFICATE_URL: &str =
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
const REGION: RegionId = RegionId(0);

/// Records that are announced over and over.
const HOT: usize = 64;
/// Messages in a pass, applied only.
const APPLIED: usize = 65_536;
/// Messages in a pass, signed: each takes half a millisecond to sign.
const SIGNED: usize = 4_096;

/// Which records are announced.
#[derive(Clone, Copy, PartialEq, Eq, strum::Display)]
enum Keys {
    #[strum(to_string = "distinct keys")]
    Distinct,
    #[strum(to_string = "hot keys")]
    Hot,
}

impl Keys {
    /// The key of the message with this number.
    fn key(self, number: usize) -> String {
        match self {
            Self::Distinct => format!("tenant-{number}"),
            Self::Hot => format!("tenant-{}", number % HOT),
        }
    }
}

/// A sidecar whose region is LIVE; of the hot keys somebody holds the records, and nobody read them
/// lately.
struct World {
    sidecar: Arc<Settings>,
    _held: Vec<Arc<Record>>,
}

impl World {
    fn new(keys: Keys) -> Self {
        let sidecar = live_sidecar::sidecar(config(3, ""));
        let hot = (0..HOT).filter(|_| keys == Keys::Hot).filter_map(|place| record(&sidecar, &keys.key(place)));
        let held = hot.map(|id| sidecar.fill.shared.freshness.pin(id)).collect();
        Self { sidecar, _held: held }
    }

    /// As [`Announcements`] wires it; with something to carry out it would not be announcements
    /// that are measured.
    fn applier(&self) -> Applier {
        let freshness = self.sidecar.fill.shared.freshness.clone();
        let (keyed_hashes, metrics) =
            (self.sidecar.fill.shared.keyed_hashes.clone(), self.sidecar.fill.shared.metrics.clone());
        Applier::new(
            Box::new(move |now, wall, event| freshness.step(now, wall, event)),
            keyed_hashes,
            Arc::new(Remembered::new()),
            self.sidecar.fill.shared.clock.clone(),
            metrics,
            self.sidecar.fill.shared.observed.clone(),
            Box::new(|actions| drop(black_box(actions))),
        )
    }
}

fn record(sidecar: &Settings, key: &str) -> Option<nearside::model::ids::RecordId> {
    sidecar.fill.shared.keyed_hashes.record("context", key)
}

/// The text of the message with this number: as a publisher that numbers its messages writes it.
fn text(keys: Keys, number: usize) -> String {
    encode_json(&Announcement {
        record_type: "context".to_owned(),
        key: keys.key(number),
        kind: AnnouncementKind::Changed { version: Some(1 + number as u64) },
        numbered: Some(Numbered { publisher: "ingest-7f9c4d".to_owned(), sequence: 1 + number as u64 }),
        ingested_at: Some(Clock::System.wall()),
    })
}

fn verified(keys: Keys, number: usize) -> Verified {
    let (message, published) = (text(keys, number), Clock::System.wall());
    Verified::Notification { message, published, message_id: format!("{number:036}") }
}

static SIGNER: LazyLock<Signer> = LazyLock::new(|| {
    let (day, now) = (Duration::from_secs(24 * 3600), Clock::System.wall());
    Signer::generate(Wall::from_millis(now.as_millis() - day.as_millis() as u64), now + day)
});

fn envelope(keys: Keys, number: usize) -> Bytes {
    let message = text(keys, number);
    let version = SignatureVersion::Two;
    SIGNER.notification(TOPICS[REGION.index()], &message, Clock::System.wall(), CERTIFICATE_URL, version).into()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures the machine's time")]
fn now() -> Instant {
    Instant::now()
}

/// Applies `count` messages that nothing has seen; how long that took.
fn apply(keys: Keys, count: usize) -> Duration {
    let world = World::new(keys);
    let applier = world.applier();
    let messages: Vec<Verified> = (0..count).map(|number| verified(keys, number)).collect();
    let begun = now();
    for message in messages {
        let applied = applier.apply(REGION, message, None);
        assert_eq!(applied, Applied::Announced);
    }
    let took = begun.elapsed();
    check(&world.sidecar, keys, count);
    took
}

/// Takes `envelopes` in, as a transport does, each to its receipt.
fn take(keys: Keys, envelopes: &[Bytes]) -> Duration {
    let world = World::new(keys);
    let pem = Bytes::from(SIGNER.certificate_pem().to_owned());
    let intake = VerifyingIntake::new(&world.sidecar, Fetcher::given(move |_| Ok(pem.clone())));
    let mut took = Duration::ZERO;
    // The first brings the certificate: it is not timed, and nothing waits after it.
    let (first, rest) = envelopes.split_first().expect("there are messages");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert_eq!(runtime.block_on(intake.take(REGION, first.clone(), None)), Disposition::Acknowledge);
    runtime.block_on(async {
        let begun = now();
        for envelope in rest {
            assert_eq!(intake.take(REGION, envelope.clone(), None).await, Disposition::Acknowledge);
        }
        took = begun.elapsed();
    });
    check(&world.sidecar, keys, envelopes.len());
    took
}

/// That it was done: the last message's version is its record's floor.
fn check(sidecar: &Settings, keys: Keys, count: usize) {
    let id = record(sidecar, &keys.key(count - 1)).expect("the type is a route's");
    assert_eq!(sidecar.fill.shared.freshness.pin(id).snapshot().floor, Version(count as u64));
}

/// `count` units of work of which a pass does `size`; what all of them took.
fn passes(count: u64, size: usize, mut pass: impl FnMut() -> Duration) -> Duration {
    let whole = count.div_ceil(size as u64);
    let took: Duration = (0..whole).map(|_| pass()).sum();
    took.mul_f64(count as f64 / (whole * size as u64) as f64)
}

fn announcements(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("announcements");
    group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(2));
    for keys in [Keys::Distinct, Keys::Hot] {
        group.bench_function(format!("verified text to applied, {keys}"), |bencher| {
            bencher.iter_custom(|count| passes(count, APPLIED, || apply(keys, APPLIED)));
        });
    }
    for keys in [Keys::Distinct, Keys::Hot] {
        let envelopes: Vec<Bytes> = (0..=SIGNED).map(|number| envelope(keys, number)).collect();
        group.bench_function(format!("signed envelope to receipt, {keys}"), |bencher| {
            bencher.iter_custom(|count| passes(count, SIGNED, || take(keys, &envelopes)));
        });
    }
    group.finish();
}

/// Parts of the way, to find what is slow.
fn parts(criterion: &mut Criterion) {
    let (envelope, text) = (envelope(Keys::Distinct, 7), text(Keys::Distinct, 7));
    criterion.bench_function("announcement: envelope parsed", |bencher| {
        bencher.iter(|| nearside::aws::envelope::Envelope::parse(black_box(&envelope)));
    });
    criterion.bench_function("announcement: text decoded", |bencher| {
        bencher.iter(|| nearside::protocol::announcement::decode(black_box(&text)));
    });
    let world = World::new(Keys::Hot);
    let id = record(&world.sidecar, "tenant-0").expect("the type is a route's");
    let mut version = 0;
    criterion.bench_function("announcement: one step of freshness", |bencher| {
        bencher.iter(|| {
            version += 1;
            let (moment, wall) = (world.sidecar.fill.shared.clock.now(), world.sidecar.fill.shared.clock.wall());
            let says = Says::Changed(id, Some(Version(version)));
            let event = Event::Message { region: REGION, published: wall, queued: None, numbered: None, says };
            world.sidecar.fill.shared.freshness.step(moment, wall, event)
        });
    });
}

/// Messages a second, by the median of five passes.
fn rate(count: usize, mut pass: impl FnMut() -> Duration) -> f64 {
    let mut took: Vec<Duration> = (0..5).map(|_| pass()).collect();
    took.sort_unstable();
    count as f64 / took[2].as_secs_f64()
}

/// The figures that are promised.
fn rates() {
    for keys in [Keys::Distinct, Keys::Hot] {
        let envelopes: Vec<Bytes> = (0..=SIGNED).map(|number| envelope(keys, number)).collect();
        let applied = rate(APPLIED, || apply(keys, APPLIED));
        let verified = rate(SIGNED, || take(keys, &envelopes));
        say(&format!("{keys}: {applied:.0}/s applied (>= 50000), {verified:.0}/s verified (>= 20000)"));
    }
}

#[expect(clippy::print_stdout, reason = "what a benchmark is for")]
fn say(line: &str) {
    println!("{line}");
}

criterion_group!(benches, announcements, parts);

fn main() {
    // So many messages and nothing else, to count their instructions
    // (`benches/instructions.sh`).
    if let Some(count) = std::env::var("NEARSIDE_APPLY").ok().and_then(|count| count.parse().ok()) {
        apply(Keys::Distinct, count);
        return;
    }
    if !std::env::args().any(|argument| argument == "--rates") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
    rates();
}
