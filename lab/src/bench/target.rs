//! Measures a user's own services side by side. Every answer must be a 200. CPU and memory are left
//! out, because the servers are not ours to look at.

use std::net::ToSocketAddrs;

use nearside::model::time::Clock;
use url::{Position, Url};

use super::client::Speaks;
use super::entrant::Entrant;
use super::error::BenchError;
use super::host;
use super::load::BenchRequest;
use super::pace::LoadPace;
use super::paths::Paths;
use super::progress::Progress;
use super::result::{BenchReport, Scenario};
use super::session::{Bench, BenchSettings};
use super::subject::{Address, Proof, Subject};

/// Services that a user wants measured.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    /// The target first, then the services to compare it with.
    pub urls: Vec<Url>,
    /// Asked for instead of the URLs' own paths.
    pub path: Option<String>,
    /// Number of connections to keep open to each service.
    pub connections: usize,
    /// HTTP/2 with prior knowledge: one connection with that many requests in flight.
    pub h2c: bool,
    /// The rate of an open loop; a closed loop if `None`.
    pub per_second: Option<u32>,
    /// Lines of the form `name: value`.
    pub headers: Vec<String>,
}

/// Measures all of them in turn.
pub(crate) fn run(settings: &BenchSettings, own: &Own, progress: &Progress) -> Result<BenchReport, BenchError> {
    let began = Clock::System.now();
    let host = host::Host::new(None)?;
    let pace = own.per_second.map_or(LoadPace::Closed, |rate| LoadPace::Open { per_second: f64::from(rate.max(1)) });
    let how = match pace {
        LoadPace::Closed => "closed loop: each sends the next request when the last is answered".to_owned(),
        LoadPace::Open { per_second } => {
            format!("open loop at {per_second}/s: latency counts from when a request was due")
        }
    };
    let mut scenario = Scenario {
        name: "target".to_owned(),
        title: "Services of your own".to_owned(),
        how: format!("{}, {how}", own.travels()),
        ..Scenario::default()
    };
    let entrants = own.urls.iter().map(|url| entrant(url, own)).collect::<Result<Vec<_>, _>>()?;
    let mut report =
        BenchReport { began: host::rfc3339_now(), machine: host.machine.clone(), ..BenchReport::default() };
    let bench = Bench { settings, host: &host, progress, missing: &mut report.missing };
    bench.rounds(&mut scenario, entrants, pace)?;
    report.scenarios.push(scenario);
    report.took_s = (Clock::System.now() - began).as_secs_f64();
    Ok(report)
}

impl Own {
    fn speaks(&self) -> Speaks {
        if self.h2c {
            Speaks::H2c { streams: self.connections }
        } else {
            Speaks::Http1 { connections: self.connections }
        }
    }

    fn travels(&self) -> String {
        if self.h2c {
            format!("HTTP/2 with prior knowledge, one connection, {} requests at once", self.connections)
        } else {
            format!("HTTP/1.1, {} connections kept alive", self.connections)
        }
    }
}

fn not_http(url: &Url, why: &str) -> BenchError {
    BenchError::NotHttp { url: url.to_string(), why: why.to_owned() }
}

fn entrant(url: &Url, own: &Own) -> Result<Entrant, BenchError> {
    if url.scheme() != "http" {
        return Err(not_http(url, "only plain HTTP is measured; write an http:// URL"));
    }
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
    let address = (host.trim_matches(['[', ']']), port).to_socket_addrs().ok().and_then(|mut found| found.next());
    let address = address.ok_or_else(|| not_http(url, "its host has no address"))?;
    let path = own.path.clone().unwrap_or_else(|| url[Position::BeforePath..Position::AfterQuery].to_owned());
    let subject = Subject {
        name: url[Position::BeforeHost..Position::BeforePath].to_owned(),
        version: String::new(),
        settings: path.clone(),
        proof: Proof::Always,
        address: Address::Tcp(address),
        process: None,
    };
    let ask = BenchRequest {
        paths: Paths::Fixed(path),
        headers: own.headers.iter().map(|line| format!("{line}\r\n")).collect(),
        host: url[Position::BeforeHost..Position::BeforePath].to_owned(),
        body_bytes: None,
        proof: Proof::Always,
        body: String::new(),
    };
    Entrant::over(subject, &own.speaks(), ask)
}
