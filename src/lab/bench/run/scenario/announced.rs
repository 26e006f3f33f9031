//! Announcements without a network: how many a second one core verifies and applies. One row is for
//! applying messages, one for taking in signed ones. Every message is about a record that was never
//! announced before, in a sidecar that has seen none, because a copy would cost less. The floor at
//! the end shows what was really taken in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, FutureExt};

use crate::aws::certificate::fetch::Fetcher;
use crate::aws::envelope::SignatureVersion;
use crate::aws::remembered::Remembered;
use crate::aws::verify::Verified;
use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::config::read;
use crate::core::{Core, Parts};
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::http::limits::BODIES_BYTES;
use crate::lab::bench::histogram::Latencies;
use crate::lab::bench::load::Counted;
use crate::lab::bench::result::{Goal, Row, Scenario};
use crate::lab::bench::run::{Bench, BenchError, round};
use crate::lab::bench::sidecar::NEARSIDE;
use crate::lab::bench::subject::SubjectError;
use crate::lab::signer::Signer;
use crate::model::ids::{RegionId, Version};
use crate::model::time::{Clock, Wall};
use crate::protocol::announcement::encode_json;
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};
use crate::protocol::event::{Event, Says};
use crate::protocol::limits::FLOOR_SLOTS;
use crate::sidecar::announcements::apply::{Applied, Applier};
use crate::sidecar::announcements::intake::VerifyingIntake;
use crate::sidecar::announcements::{Intake, Receipt};
use crate::tasks::Tasks;

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
    let row = |name: &str, proof: &str| Row {
        subject: format!("{NEARSIDE}, {name}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        proof: proof.to_owned(),
        ..Row::default()
    };
    let mut applied = row("applied", "the last record's version");
    let mut verified = row("verified and applied", "the last record's version");
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
fn timed(counted: &Counted) -> crate::lab::bench::result::Round {
    round(counted, Some(counted.took), None)
}

/// The regions of a sidecar that gets no requests.
struct Silent;

impl Origin for Silent {
    fn ask(&self, _: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        future::pending().boxed()
    }
}

fn sidecar() -> Result<Arc<Core>, SubjectError> {
    let unable = |why: String| SubjectError::Unable { program: NEARSIDE.to_owned(), why };
    let text = format!(
        "[service]\nname = \"bench\"\n[[service.region]]\nname = \"region-0\"\nurl = \"http://127.0.0.1:1\"\n\
         topic = \"{TOPIC}\"\n[[service.route]]\npath = \"/v1/contexts/{{key}}/{{view}}\"\n\
         records = [\"context:{{key}}\"]\n[announcements]\ntransport = \"off\"\n"
    );
    let config = read::from_toml(&text).map_err(|mistakes| unable(format!("{mistakes:?}")))?;
    let parts = Parts {
        clock: Clock::System,
        origin: Arc::new(Silent),
        tasks: Tasks::new(),
        seed: HashKey::fixed(7),
        floor_slots: FLOOR_SLOTS,
        memory: Memory::AMPLE,
        bodies: ByteBudget::new(BODIES_BYTES),
    };
    let sidecar = Core::new(config, parts).map_err(|error| unable(error.to_string()))?;
    let (now, wall) = (Clock::System.now(), Clock::System.wall());
    let spoke =
        Event::Message { region: REGION, published: wall, queued: None, numbered: None, says: Says::Unrouted };
    for event in [Event::Subscribing(REGION), Event::Subscribed(REGION), spoke] {
        sidecar.freshness.step(now, wall, event);
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
    let envelope = |number| {
        let version = SignatureVersion::Two;
        signer.notification(TOPIC, &text(number), Clock::System.wall(), CERTIFICATE_URL, version).into()
    };
    let envelopes = (0..=SIGNED).map(envelope).collect();
    (signer, envelopes)
}

/// Applies `count` messages that the sidecar has never seen.
fn apply(count: usize) -> Result<Counted, SubjectError> {
    let sidecar = sidecar()?;
    let freshness = sidecar.freshness.clone();
    let (keyring, metrics) = (sidecar.keyring.clone(), sidecar.metrics.clone());
    let applier = Applier::new(
        Box::new(move |now, wall, event| freshness.step(now, wall, event)),
        keyring,
        Arc::new(Remembered::new()),
        sidecar.clock.clone(),
        metrics,
        sidecar.observed.clone(),
        // Nothing is held back, so there are no actions to carry out.
        Box::new(drop),
    );
    let message = |number| {
        let (message, published) = (text(number), Clock::System.wall());
        Verified::Notification { message, published, message_id: format!("{number:036}") }
    };
    let messages: Vec<Verified> = (0..count).map(message).collect();
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
    let unable =
        |error: std::io::Error| SubjectError::Unable { program: NEARSIDE.to_owned(), why: error.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
    Ok(runtime.block_on(async {
        let (first, rest) = envelopes.split_at(1);
        for envelope in first {
            intake.take(REGION, envelope.clone(), None).await;
        }
        let mut series = Series::new();
        for envelope in rest {
            series.next(intake.take(REGION, envelope.clone(), None).await == Receipt::Acknowledge);
        }
        series.ended(&sidecar, envelopes.len())
    }))
}

/// Times messages one after another.
struct Series {
    began: crate::model::time::Moment,
    last: crate::model::time::Moment,
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

    /// What was counted. If the last message left no trace, all of them count as failed.
    fn ended(self, sidecar: &Core, count: usize) -> Counted {
        let Self { began, last, mut counted, latencies } = self;
        let record = sidecar.keyring.record("context", &key(count - 1));
        let floor = record.map(|id| sidecar.freshness.pin(id).snapshot().floor);
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
    fn what_is_timed_is_applied() {
        let counted = apply(100).unwrap();
        assert_eq!((counted.answered, counted.failures), (100, 0), "{:?}", counted.first_failure);
    }

    #[test]
    fn what_was_not_applied_counts_as_failed() {
        let mut series = Series::new();
        series.next(true);
        let counted = series.ended(&sidecar().unwrap(), 1);
        assert_eq!((counted.answered, counted.failures), (0, 1));
    }
}
