//! Lines of a doctor on each region's grants, as far as its answers say: which version it goes by, what
//! it decided about the doctor's own requests, and whether it contradicts other regions.

use crate::admin::findings::report::{LineState, ReportLine};
use crate::model::ids::RegionId;
use crate::model::time::Wall;
use crate::protocol::grants_floor::GrantsView;
use crate::telemetry::metrics::grants::{Contradiction, GrantsAnswer, GrantsMetrics};

/// Knowledge of the regions' grants.
pub(super) struct Known<'k> {
    pub(super) view: &'k GrantsView,
    pub(super) metrics: &'k GrantsMetrics,
    pub(super) now: Wall,
}

/// A line for each region; none where no region states any grants.
pub(super) fn lines<'n>(known: &Known<'_>, names: impl Iterator<Item = &'n str>) -> Vec<ReportLine> {
    // A 401 alone may be any service's.
    let said = [GrantsAnswer::Allowed, GrantsAnswer::Refused];
    let regions: Vec<(RegionId, &str)> = (0..).map(RegionId).zip(names).collect();
    let is_said = regions.iter().any(|(region, _)| said.iter().any(|it| known.metrics.answers(*region, *it) > 0));
    regions.into_iter().filter(|_| is_said).map(|(region, name)| line(known, region, name)).collect()
}

fn line(known: &Known<'_>, region: RegionId, name: &str) -> ReportLine {
    let [allowed, refused, silent, unauthenticated] =
        [GrantsAnswer::Allowed, GrantsAnswer::Refused, GrantsAnswer::Silent, GrantsAnswer::Unauthenticated]
            .map(|answer| known.metrics.answers(region, answer));
    let [else_allowed, else_refused] = [Contradiction::Allowed, Contradiction::Refused]
        .map(|contradiction| known.metrics.contradictions(region, contradiction));
    let stated = known.view.stated.get(region.index()).copied().unwrap_or(0);
    let by = if stated == 0 { "no version".to_owned() } else { version(stated, known.now) };
    let (state, saw, advice) = if unauthenticated > 0 {
        let saw = format!("it answered 401 to {unauthenticated} requests: it does not believe the credential");
        (
            LineState::Wrong,
            saw,
            "nearside grants who says what is wrong with a token; look at its issuer's keys there",
        )
    } else if else_refused > 0 {
        let saw = format!("it refused {refused} requests by {by}, which other regions allow by the same");
        (LineState::Wrong, saw, "its settings differ from theirs: compare access.issuer and access.deny_file")
    } else if else_allowed > 0 {
        let saw = format!("it allowed {allowed} requests by {by}, which other regions refuse by the same");
        (LineState::Wrong, saw, "it only observes yet, or its settings differ: look at access.mode there")
    } else if refused > 0 {
        let saw = format!("it refused {refused} requests by {by}");
        (LineState::Wrong, saw, "the caller has no grant for the view: ask the platform team for one")
    } else if stated == 0 && silent > 0 {
        let saw = "it states no grants, and others do".to_owned();
        (LineState::Wrong, saw, "its access.mode is off, or something before it removes X-Grants-Version")
    } else if allowed > 0 {
        (LineState::Well, format!("it allowed {allowed} requests by {by}: it enforces, or observes"), "")
    } else {
        let how = "give a path that a route names and the service answers: --path /v1/...";
        (LineState::Unchecked, "nothing was seen of it".to_owned(), how)
    };
    let title = "it goes by the grants that other regions go by, and they allow this caller";
    ReportLine { state, subject: name.to_owned(), check: "grants", title, saw, advice: advice.to_owned() }
}

/// A version, with its age: it is the time at which it was written.
fn version(version: u64, now: Wall) -> String {
    let age = now.since(Wall::from_millis(version)).as_secs();
    format!("version {version} (written {} ago)", humantime::format_duration(std::time::Duration::from_secs(age)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    fn seen(answers: &[(u8, GrantsAnswer)], contradictions: &[(u8, Contradiction)]) -> Vec<(LineState, String)> {
        let metrics = Metrics::new(&["a".to_owned(), "b".to_owned()]).grants;
        answers.iter().for_each(|(region, answer)| metrics.answered(RegionId(*region), *answer));
        contradictions.iter().for_each(|(region, how)| metrics.contradicted(RegionId(*region), *how));
        let view = GrantsView { stated: vec![7_000, 0], ..GrantsView::default() };
        let known = Known { view: &view, metrics: &metrics, now: Wall::from_millis(67_000) };
        lines(&known, ["a", "b"].into_iter()).into_iter().map(|line| (line.state, line.saw)).collect()
    }

    #[test]
    fn each_region_is_judged_by_answers() {
        assert_eq!(seen(&[(0, GrantsAnswer::Silent), (1, GrantsAnswer::Unauthenticated)], &[]), [], "no grants");
        let found = seen(&[(0, GrantsAnswer::Allowed), (1, GrantsAnswer::Silent)], &[(1, Contradiction::Silent)]);
        assert_eq!(found[0].0, LineState::Well);
        assert!(found[0].1.contains("by version 7000 (written 1m ago)"), "{found:?}");
        assert_eq!(found[1], (LineState::Wrong, "it states no grants, and others do".to_owned()));
        let found = seen(&[(0, GrantsAnswer::Refused)], &[(0, Contradiction::Refused)]);
        assert!(found[0].0 == LineState::Wrong && found[0].1.contains("other regions allow"), "{found:?}");
        assert_eq!(found[1].0, LineState::Unchecked);
        let found = seen(&[(0, GrantsAnswer::Allowed)], &[(0, Contradiction::Allowed)]);
        assert!(found[0].1.contains("other regions refuse"), "{found:?}");
        let found = seen(&[(0, GrantsAnswer::Refused), (1, GrantsAnswer::Unauthenticated)], &[]);
        assert!(found[0].1.contains("it refused 1 requests") && found[1].1.contains("401"), "{found:?}");
    }
}
