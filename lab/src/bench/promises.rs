//! The account: every promised figure, and whether this run reached it; the reports show it first.
//! Every promise is in every account. One that this run cannot judge says why, and never counts as
//! met.

use super::result::{BenchReport, Promise};

/// A promised figure, and which goal of which scenario judges it.
struct Figure {
    number: u8,
    text: &'static str,
    scenario: &'static str,
    /// Beginning of the goal's text.
    goal: &'static str,
}

const fn figure(number: u8, text: &'static str, scenario: &'static str, goal: &'static str) -> Figure {
    Figure { number, text, scenario, goal }
}

/// No scenario measures it; the goal's text says what does.
const ELSEWHERE: &str = "";

/// All of them, in the order in which they were promised.
const FIGURES: [Figure; 26] = [
    figure(1, "hit: CPU <= 1.15 x the bare responder", "hit-1k", "CPU per request <= 1.15 x the bare responder"),
    figure(1, "hit: CPU <= 1.0 x HAProxy", "hit-1k", "CPU per request <= 1 x haproxy"),
    figure(1, "hit: CPU <= 0.55 x nginx", "hit-1k", "CPU per request <= 0.55 x nginx"),
    figure(2, "one connection: p50 <= 1.15 x the bare responder", "hit-1k-one", "p50 <= 1.15 x the bare responder"),
    figure(2, "one connection: p99 <= 1.3 x the bare responder", "hit-1k-one", "p99 <= 1.3 x the bare responder"),
    figure(2, "Unix socket: p50 below TCP's", "hit-unix", "p50 <= 1 x nearside, TCP"),
    figure(3, "100 KiB: CPU <= 1.2 x nginx", "hit-100k", "CPU per request <= 1.2 x nginx"),
    figure(4, "a miss adds <= 150 us to the fastest region", "miss", "p50 adds"),
    figure(4, "three regions: p99 <= 1.1 x their exact minimum", "miss-tail", "p99 <= 1.1 x exact minimum"),
    figure(4, "three regions: p99 below sequential failover's", "miss-tail", "p99 <= 1 x sequential failover"),
    figure(5, "an entry beyond its content <= 400 bytes by RSS", "million", "memory per entry"),
    figure(
        5,
        "an entry beyond its content <= 250 bytes by count",
        ELSEWHERE,
        "an allocator that counts is not the one that is shipped: cargo bench --bench memory counts them",
    ),
    figure(5, "CPU per hit at a million <= 1.3 x a thousand", "million", "CPU per hit at a million"),
    figure(5, "idle <= 12 MiB", "start", "idle"),
    figure(5, "idle with three live subscriptions <= 24 MiB", "live", "idle"),
    figure(5, "exec to /readyz <= 50 ms", "start", "exec to /readyz"),
    figure(6, ">= 50,000 announcements applied a second", "announced", "applied a second"),
    figure(6, ">= 20,000 announcements verified a second", "announced", "verified and applied a second"),
    figure(6, "500 verified a second: CPU per hit <= 1.03 x", "live", "CPU per hit"),
    figure(7, "1,000,000 requests at half of the maximum rate", "dying", "requests in one run"),
    figure(7, "a region dies: no failure", "dying", "no failures"),
    figure(7, "a region dies: p99.9 <= 2 x the quiet run's", "dying", "p99.9"),
    figure(8, "a node's hit: CPU <= 1.1 x a sidecar's", "node-hit", "CPU per request <= 1.1 x nearside"),
    figure(8, "a node with 1 % misses on a bad day's table: p99 <= 6 ms", "node-miss", "p99 with"),
    figure(8, ">= 5,000 changes a second and core from feed to announced", "ingest", "changes a second"),
    figure(9, "small records with a dictionary <= 0.40 x their JSON on the wire", "payload", "small records"),
];

pub(super) fn judged(report: &BenchReport) -> Vec<Promise> {
    FIGURES.iter().map(|figure| figure.judged(report)).collect()
}

impl Figure {
    fn judged(&self, report: &BenchReport) -> Promise {
        let (text, scenario) = (self.text.to_owned(), self.scenario.to_owned());
        let promise = Promise { number: self.number, text, scenario, ..Promise::default() };
        if self.scenario == ELSEWHERE {
            return Promise { why: self.goal.to_owned(), ..promise };
        }
        let Some(scenario) = report.scenarios.iter().find(|scenario| scenario.name == self.scenario) else {
            return Promise { why: format!("{} was not asked for", self.scenario), ..promise };
        };
        // Take the worst of several, because a promise must hold against everybody it names.
        let goals = scenario.goals.iter().filter(|goal| goal.text.starts_with(self.goal));
        let worst = goals.min_by(|one, other| {
            one.met.cmp(&other.met).then((other.seen / other.limit).total_cmp(&(one.seen / one.limit)))
        });
        match worst {
            Some(goal) => Promise { seen: Some(goal.seen), limit: Some(goal.limit), met: Some(goal.met), ..promise },
            None => Promise { why: self.nobody(report), ..promise },
        }
    }

    /// Why there is nothing to compare with.
    fn nobody(&self, report: &BenchReport) -> String {
        let named = report.missing.iter().find(|missing| self.goal.contains(&missing.name));
        named.map_or_else(
            || format!("{} did not measure it", self.scenario),
            |missing| format!("{} was not measured: {}", missing.name, missing.why),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::{Goal, Missing, Scenario};
    use super::*;
    use crate::bench::run::scenario;

    fn report(name: &str, goals: Vec<Goal>) -> BenchReport {
        let scenario = Scenario { name: name.to_owned(), goals, ..Scenario::default() };
        BenchReport { scenarios: vec![scenario], ..BenchReport::default() }
    }

    fn one<'a>(promises: &'a [Promise], words: &str) -> &'a Promise {
        promises.iter().find(|promise| promise.text.contains(words)).unwrap()
    }

    #[test]
    fn unrun_promise_is_unmet_with_reason() {
        let promises = judged(&BenchReport::default());
        assert!(promises.iter().all(|promise| promise.met.is_none() && !promise.why.is_empty()));
        assert_eq!(promises.iter().map(|promise| promise.number).max(), Some(9));
        assert_eq!(one(&promises, "HAProxy").why, "hit-1k was not asked for");
        assert!(one(&promises, "by count").why.contains("cargo bench --bench memory"));
    }

    #[test]
    fn promise_is_judged_by_scenario_goal() {
        let goal = Goal::at_most("CPU per request <= 1 x haproxy", 0.65, 1.0);
        let promises = judged(&report("hit-1k", vec![goal]));
        let haproxy = one(&promises, "HAProxy");
        assert_eq!((haproxy.seen, haproxy.met), (Some(0.65), Some(true)));
        assert_eq!(one(&promises, "nginx").why, "hit-1k did not measure it");
    }

    #[test]
    fn missing_peer_is_named_in_comparison() {
        let mut report = report("hit-1k", Vec::new());
        report.missing.push(Missing { name: "haproxy".into(), why: "not on PATH".into() });
        assert_eq!(one(&judged(&report), "HAProxy").why, "haproxy was not measured: not on PATH");
    }

    #[test]
    fn worst_goal_of_kind_is_reported() {
        let goals =
            [0.2, 1.4, 0.7].map(|seen| Goal::at_most(format!("p99 <= 1 x sequential failover, {seen}"), seen, 1.0));
        let promises = judged(&report("miss-tail", goals.to_vec()));
        let failover = one(&promises, "failover");
        assert_eq!((failover.seen, failover.met), (Some(1.4), Some(false)));
    }

    #[test]
    fn every_promise_has_existing_scenario() {
        for figure in &FIGURES {
            let is_scenario = scenario::ALL.iter().any(|(known, _)| *known == figure.scenario);
            assert!(is_scenario || figure.scenario == ELSEWHERE, "{}", figure.scenario);
        }
    }
}
