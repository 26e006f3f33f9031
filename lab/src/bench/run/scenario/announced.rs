//! Announcements without a network: how many a second one core verifies and applies. One row is for
//! applying messages, one for taking in signed ones. Every message is about a record that was never
//! announced before, in a sidecar that has seen none, because a copy would cost less. The floor at
//! the end shows what was really taken in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, FutureExt};
use nearside::aws::certificate::fetch::Fetcher;
use nearside::aws::envelope::SignatureVersion;
use nearside::aws::remembered::Remembered;
use nearside::aws::verify::Verified;
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::config::read;
use nearside::fill::settings::Parts;
use nearside::http::bodies::ByteBudget;
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::http::limits::BODIES_BYTES;
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::announcement::encode_json;
use nearside::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};
use nearside::protocol::event::{Event, Says};
use nearside::protocol::limits::FLOOR_SLOTS;
use nearside::request::settings::Settings;
use nearside::sidecar::announcements::apply::{Applied, Applier};
use nearside::sidecar::announcements::intake::VerifyingIntake;
use nearside::sidecar::announcements::{Disposition, Intake};
use nearside::tasks::Tasks;

use crate::bench::entrant::round;
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::load::Counted;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::NEARSIDE;
use crate::bench::subject::SubjectError;
use crate::signer::Signer;

/// Messages in a round of applying only.
const APPLIED: usize = 65_536;
/// Messages in a round of signed ones; signing one takes half a millisecond.
const SIGNED: usize = 4_096;
const REGION: RegionId = RegionId(0);
const TOPIC: &str = "arn:aws:sns:eu-west-1:000000000000:contexts";
const CERTIFICATE_URL: &str =
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

/// Measures from decoded message to applied, and from signed envelope to receipt.
pub(super) fn rates(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "announced".to_owned(),
        title: "Announcements, verified and applied in-process".to_owned(),
        how: format!(
            "one thread of the harness, no network, a new sidecar each round, every message of another record; \
             {APPLIED} verified texts are applied, {SIGNED} signed envelopes are verified and applied; the certificate is \
             known; CPU is the time that passed"
        ),
        ..Scenario::default()
    };
    let [mut applied, mut verified] = ["applied", "verified and applied"].map(|name| Row {
        subject: format!("{NEARSIDE}, {name}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        proof: "the last record's version".to_owned(),
        ..Row::default()
    });
    let rounds = bench.settings.rounds;
    let bar = bench.progress.scenario(&scenario.name, 2 * rounds);
    bar.doing("signing");
    let (signer, envelopes) = signed();
    let certificate = Bytes::from(signer.certificate_pem().to_owned());
    for number in 1..=rounds {
        bar.doing(&format!("applied, round {number} of {rounds}"));
        applied.rounds.push(timed(&apply(APPLIED)?));
        bar.done_one();
        bar.doing(&format!("verified, round {number} of {rounds}"));
        verified.rounds.push(timed(&take(&certificate, &envelopes)?));
        bar.done_one();
    }
    scenario.goals.push(Goal::at_least("applied a second >= 50,000", applied.rate(), 50_000.0));
    scenario.goals.push(Goal::at_least("verified and applied a second >= 20,000", verified.rate(), 20_000.0));
    scenario.rows = vec![applied, verified];
    Ok(scenario)
}

/// A round in which one thread did nothing else, so the time that passed is its CPU time.
fn timed(counted: &Counted) -> crate::bench::result::Round {
    round(counted, Some(counted.took), None)
}

/// The regions of a sidecar that gets no requests.
struct Silent;

impl Origin for Silent {
    fn ask(&self, _: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        future::pending().boxed()
    }
}

fn unable(why: String) -> SubjectError {
    SubjectError::Unable { program: NEARSIDE.to_owned(), why }
}

fn sidecar() -> Result<Arc<Settings>, SubjectError> {
    let text = format!(
        "[service]\nname = \"bench\"\n[[service.region]]\nname = \"region-0\"\nurl = \"http://127.0.0.1:1\"\n\
         topic = \"{TOPIC}\"\n[[service.route]]\npath = \"/v1/contexts/{{key}}/{{view}}\"\n\
         records = [\"context:{{key}}\"]\n[announcements]\ntransport = \"off\"\n"
    );
    let config = read::from_toml(&text).map_err(|errors| unable(format!("{errors:?}")))?;
    let parts = Parts {
        clock: Clock::System,
        origin: Arc::new(Silent),
        tasks: Tasks::new(),
        hash_key: HashKey::fixed(7),
        floor_slots: FLOOR_SLOTS,
        memory: Memory::AMPLE,
        bodies: ByteBudget::new(BODIES_BYTES),
    };
    let sidecar = Settings::new(config, parts).map_err(|error| unable(error.to_string()))?;
    let (now, wall) = (Clock::System.now(), Clock::System.wall());
    let spoke =
        Event::Message { region: REGION, published: wall, queued: None, numbered: None, says: Says::Unrouted };
    for event in [Event::Subscribing(REGION), Event::Subscribed(REGION), spoke] {
        sidecar.fill.shared.freshness.step(now, wall, event);
    }
    Ok(sidecar)
}

fn key(number: usize) -> String {
    format!("tenant-{number}")
}

/// The text of message `number`, as a publisher that numbers its messages writes it.
fn text(number: usize) -> String {
    encode_json(&Announcement {
        record_type: "context".to_owned(),
        key: key(number),
        kind: AnnouncementKind::Changed { version: Some(1 + number as u64) },
        numbered: Some(Numbered { publisher: "ingest-7f9c4d".to_owned(), sequence: 1 + number as u64 }),
        ingested_at: Some(Clock::System.wall()),
    })
}

/// The signer and the envelopes: one more than is timed, because the first one has the certificate
/// fetched.
fn signed() -> (Signer, Vec<Bytes>) {
    let (day, now) = (Duration::from_secs(24 * 3600), Clock::System.wall());
    let signer = Signer::generate(Wall::from_millis(now.as_millis() - day.as_millis() as u64), now + day);
    let envelopes = (0..=SIGNED)
        .map(|number| {
            let version = SignatureVersion::Two;
            signer.notification(TOPIC, &text(number), Clock::System.wall(), CERTIFICATE_URL, version).into()
        })
        .collect();
    (signer, envelopes)
}

/// Applies `count` messages that the sidecar has never seen.
fn apply(count: usize) -> Result<Counted, SubjectError> {
    let sidecar = sidecar()?;
    let freshness = sidecar.fill.shared.freshness.clone();
    let (keyed_hashes, metrics) = (sidecar.fill.shared.keyed_hashes.clone(), sidecar.fill.shared.metrics.clone());
    let applier = Applier::new(
        Box::new(move |now, wall, event| freshness.step(now, wall, event)),
        keyed_hashes,
        Arc::new(Remembered::new()),
        sidecar.fill.shared.clock.clone(),
        metrics,
        sidecar.fill.shared.observed.clone(),
        // Nothing is held back, so there are no actions to carry out.
        Box::new(drop),
    );
    let messages = (0..count).map(|number| {
        let (message, published) = (text(number), Clock::System.wall());
        Verified::Notification { message, published, message_id: format!("{number:036}") }
    });
    let messages: Vec<Verified> = messages.collect();
    let mut series = Series::new();
    for message in messages {
        series.next(applier.apply(REGION, message, None) == Applied::Announced);
    }
    Ok(series.ended(&sidecar, count))
}

/// Takes the envelopes in as a transport does, each one until its receipt.
fn take(certificate: &Bytes, envelopes: &[Bytes]) -> Result<Counted, SubjectError> {
    let sidecar = sidecar()?;
    let pem = certificate.clone();
    let intake = VerifyingIntake::new(&sidecar, Fetcher::given(move |_| Ok(pem.clone())));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SubjectError::Unable { program: NEARSIDE.to_owned(), why: error.to_string() })?;
    Ok(runtime.block_on(async {
        let (first, rest) = envelopes.split_at(1);
        for envelope in first {
            intake.take(REGION, envelope.clone(), None).await;
        }
        let mut series = Series::new();
        for envelope in rest {
            series.next(intake.take(REGION, envelope.clone(), None).await == Disposition::Acknowledge);
        }
        series.ended(&sidecar, envelopes.len())
    }))
}

/// Times messages one after another.
struct Series {
    began: nearside::model::time::Moment,
    last: nearside::model::time::Moment,
    counted: Counted,
    latencies: Latencies,
}

impl Series {
    fn new() -> Self {
        let began = Clock::System.now();
        Self { began, last: began, counted: Counted::default(), latencies: Latencies::default() }
    }

    /// Counts a message; `right` says whether it was handled as it should be.
    fn next(&mut self, right: bool) {
        let now = Clock::System.now();
        if right {
            self.counted.answered += 1;
            self.latencies.record(now - self.last);
        } else {
            self.counted.fail(|| "an announcement was refused".to_owned());
        }
        self.last = now;
    }

    /// Final counts. If the last message left no trace, all of them count as failed.
    fn ended(self, sidecar: &Settings, count: usize) -> Counted {
        let Self { began, last, mut counted, latencies } = self;
        let record = sidecar.fill.shared.keyed_hashes.record("context", &key(count - 1));
        let floor = record.map(|id| sidecar.fill.shared.freshness.pin(id).snapshot().floor);
        if floor != Some(Version(count as u64)) {
            (counted.failures, counted.answered) = (counted.failures + counted.answered, 0);
        }
        Counted { took: last - began, latencies, ..counted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_announcements_are_applied() {
        let counted = apply(100).unwrap();
        assert_eq!((counted.answered, counted.failures), (100, 0), "{:?}", counted.first_failure);
    }

    #[test]
    fn unapplied_announcements_count_as_failed() {
        let mut series = Series::new();
        series.next(true);
        let counted = series.ended(&sidecar().unwrap(), 1);
        assert_eq!((counted.answered, counted.failures), (0, 1));
    }
}
