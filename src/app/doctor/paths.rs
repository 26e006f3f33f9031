//! Lines of a doctor on each path that it asked for: whether the sidecar itself refuses it, and how
//! the candidate of its route does.

use crate::admin::findings::list;
use crate::admin::findings::report::{LineState, ReportLine};
use crate::migration::tally::Ending;
use crate::migration::trial::Tried;
use crate::payload::compare::Differences;
use crate::request::answer::unshaped;
use crate::shape::shapes::ShapeRefused;

/// The check of a candidate. Its lines appear in any case: somebody waits for them.
pub const CANDIDATE: &str = "candidate";

/// A request that asks for what cannot be made of any reply, or not of this record.
pub(super) fn refused(path: &str, why: &ShapeRefused) -> ReportLine {
    let (asks, advice) = match why {
        ShapeRefused::Mask(_) => (
            " and asks no region",
            "correct the fields in --path: all who ask for these get the same; or the route's schema, if records have them",
        ),
        ShapeRefused::Mismatch => (
            "",
            "compare what regions say with the route's schema: if it does not fit, the log says where (a reply does not fit \
             the schema of its route)",
        ),
        ShapeRefused::NoRoom => ("", "give the process more memory, or ask for less at once"),
    };
    let (status, _) = unshaped(why);
    ReportLine {
        state: LineState::Wrong,
        subject: path.to_owned(),
        check: "shape",
        title: "the form and the fields that are asked for can be had",
        saw: format!("the sidecar itself answers {}{asks}: {why}", status.as_u16()),
        advice: advice.to_owned(),
    }
}

/// A line for each thing that was seen of the candidate, with the regions in which it was.
pub(super) fn candidate(path: &str, seen: &[(&str, Tried)]) -> Vec<ReportLine> {
    let mut reported: Vec<(&Tried, Vec<&str>)> = Vec::new();
    for (region, tried) in seen {
        match reported.iter_mut().find(|(known, _)| *known == tried) {
            Some((_, regions)) => regions.push(region),
            None => reported.push((tried, vec![region])),
        }
    }
    reported.into_iter().map(|(tried, regions)| line(path, tried, &list(regions))).collect()
}

fn line(path: &str, tried: &Tried, regions: &str) -> ReportLine {
    let (state, saw, advice) = match tried {
        Tried::Ended(Ending::Same) => (LineState::Well, format!("it does in {regions}"), String::new()),
        Tried::Ended(ending) => wrong(path, ending, regions),
        Tried::Once(differences) => {
            let what = match differences {
                Some(differences) => format!("differ in {}", places(differences)),
                None => "state different versions".to_owned(),
            };
            let saw = format!("the two {what} in {regions}, read once: the record may have changed between");
            (LineState::Unchecked, saw, "let both be read again after ten seconds: --listen 30s".to_owned())
        }
        Tried::NoCurrent => {
            let saw = format!("not compared in {regions}: the current upstream gave nothing to compare with");
            (LineState::Unchecked, saw, "give a path that the current upstream answers there".to_owned())
        }
        Tried::Nothing => {
            let saw = format!("not compared in this time in {regions}");
            (LineState::Unchecked, saw, "let it listen for longer: --listen 30s".to_owned())
        }
    };
    let title = "the candidate says what the current upstream says";
    ReportLine { state, subject: path.to_owned(), check: CANDIDATE, title, saw, advice }
}

/// Fault that `new` would show callers, or already does.
fn wrong(path: &str, ending: &Ending, regions: &str) -> (LineState, String, String) {
    let look = format!("nearside explain {path} says where it is asked, and with what");
    let (saw, advice) = match ending {
        Ending::Differs(differences) => (
            format!("differs: the two differ in {} in {regions}", places(differences)),
            "callers would notice under `new`: compare what both upstreams say there".to_owned(),
        ),
        Ending::Unreadable => (
            format!(
                "unreadable: what one of the two says in {regions} is too large or not well-formed, does not fit the \
                     schema, or has a content coding that cannot be taken off"
            ),
            look,
        ),
        Ending::VersionDiffers => (
            format!(
                "version-differs: in {regions} it states other versions than the current one, ten seconds later too"
            ),
            "it lags, or numbers versions in a way of its own: then write versions = \"own\" in `candidate`"
                .to_owned(),
        ),
        Ending::Refused => (
            format!("refused: in {regions} it refuses or redirects (4xx, 3xx) what the current one has"),
            format!("look at its path, url and credentials_file: {look}"),
        ),
        Ending::Failed => (
            format!("failed: in {regions} it gave no answer in time, or a 5xx, 429 or partial one"),
            format!("look at that service, and at its path and url: {look}"),
        ),
        Ending::Same | Ending::Skipped => {
            let saw = format!("not compared in {regions}: there is no memory for it");
            return (LineState::Unchecked, saw, "give the process more memory".to_owned());
        }
    };
    (LineState::Wrong, saw, advice)
}

/// Pointers, never values.
fn places(differences: &Differences) -> String {
    let more = if differences.has_more() { ["and more"].as_slice() } else { &[] };
    differences.pointers().chain(more.iter().copied()).collect::<Vec<_>>().join(", ")
}
