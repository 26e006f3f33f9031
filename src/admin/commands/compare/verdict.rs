//! Judges what regions say of a path beside what is stored of it, and beside what was announced or
//! served. Pure.

use super::content::ContentSeen;

/// Meaning of one region's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Unanswered,
    /// Its status says nothing about the record.
    NoRecord,
    /// Something newer was announced or served.
    BelowFloor,
    NothingStored,
    /// Newer than what is stored, and announced or served here.
    Announced,
    /// Newer than what is stored, and nobody said so here.
    Unannounced,
    BelowStored,
    /// Absent where something is stored, or the reverse.
    OtherPresence,
    OtherStatus,
    Same {
        by_version: bool,
    },
    OtherContent {
        by_version: bool,
    },
}

/// Meaning of one region's reply beside what is stored, and each record's floor (0: none).
pub(super) fn meaning(content: &ContentSeen, stored: Option<&ContentSeen>, floors: &[u64]) -> Meaning {
    let (says, stored_status) = (content.status, stored.map(|stored| stored.status));
    if !is_success(says) && !is_absence(says) && stored_status != Some(says) {
        return Meaning::NoRecord;
    }
    if is_below(&content.versions, floors) {
        return Meaning::BelowFloor;
    }
    let Some(stored) = stored else { return Meaning::NothingStored };
    if is_below(&stored.versions, &content.versions) {
        let is_known = content.versions.iter().enumerate().all(|(at, version)| {
            [&stored.versions[..], floors].iter().any(|known| known.get(at).is_some_and(|known| version <= known))
        });
        return if is_known { Meaning::Announced } else { Meaning::Unannounced };
    }
    if is_below(&content.versions, &stored.versions) {
        return Meaning::BelowStored;
    }
    if is_absence(says) != is_absence(stored.status) {
        return Meaning::OtherPresence;
    }
    if says != stored.status {
        return Meaning::OtherStatus;
    }
    let is_stated = !content.versions.is_empty() && content.versions.iter().all(|version| *version > 0);
    let by_version = is_stated && content.versions == stored.versions;
    if content.digest == stored.digest { Meaning::Same { by_version } } else { Meaning::OtherContent { by_version } }
}

/// True if a version is lower than another one of the same record; 0 is none.
fn is_below(versions: &[u64], others: &[u64]) -> bool {
    versions.len() == others.len()
        && versions.iter().zip(others).any(|(version, other)| *version > 0 && version < other)
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn is_absence(status: u16) -> bool {
    matches!(status, 404 | 410)
}

impl Meaning {
    /// Returns the meaning as a sentence about the region.
    pub(super) fn text(self, says: u16, stored: Option<u16>) -> String {
        let text = match self {
            Self::Unanswered => "it did not answer",
            Self::NoRecord => return format!("it says {says}, which tells nothing about the record"),
            Self::BelowFloor => "it lags: something newer was announced or served",
            Self::NothingStored => "nothing is stored to compare it with",
            Self::Announced => "it has a newer version, which was announced or served here",
            Self::Unannounced => "it has a newer version, and nobody announced it here: what is stored is old",
            Self::BelowStored => "it lags: what is stored is newer",
            Self::OtherPresence | Self::OtherStatus => {
                return format!("it says {says}, and {} is stored", stored.unwrap_or_default());
            }
            Self::Same { by_version: true } => "the same version and content",
            Self::Same { by_version: false } => "the same content",
            Self::OtherContent { by_version: true } => {
                "the same version with other content: a version has to cover everything that a reply shows"
            }
            Self::OtherContent { by_version: false } => "other content, and no version says which of them is newer",
        };
        text.to_owned()
    }

    fn tells(self) -> bool {
        !matches!(self, Self::Unanswered | Self::NoRecord)
    }

    fn lags(self) -> bool {
        matches!(self, Self::BelowFloor | Self::BelowStored)
    }

    /// True if it differs from what is stored, and nothing here says that it should.
    fn surprises(self) -> bool {
        matches!(self, Self::Unannounced | Self::OtherPresence | Self::OtherStatus | Self::OtherContent { .. })
    }
}

/// Advice on what to do next, in sentences. A caller's requests are passed on for the headers in
/// `passed_for`.
pub(super) fn verdict(
    stored: Option<&ContentSeen>,
    passed_for: &[String],
    floors: &[u64],
    regions: &[Meaning],
) -> Vec<String> {
    let says = match passed_for {
        [] => advice(stored, floors, regions),
        _ => unanswered(regions).into_iter().collect(),
    };
    let passed = (!passed_for.is_empty()).then(|| {
        format!(
            "a request with {} is passed on whole to one region, which answers as above, and nothing is stored for it: if \
             it is old, it is old there. `nearside doctor --path PATH --header 'NAME: VALUE'` says whether to write it in \
             the route's forward (each value has its own replies) or ignore",
            passed_for.join(", ")
        )
    });
    says.into_iter().map(str::to_owned).chain(passed).collect()
}

fn unanswered(regions: &[Meaning]) -> Option<&'static str> {
    let is_reported = regions.iter().any(|meaning| meaning.tells());
    (!is_reported).then_some(
        "no region answered with the record, so nothing says whether it is old: `nearside doctor --path PATH` and the \
         findings in /status say why; a refusal may lack the caller's credentials (--header)",
    )
}

fn advice(stored: Option<&ContentSeen>, floors: &[u64], regions: &[Meaning]) -> Vec<&'static str> {
    let reported: Vec<Meaning> = regions.iter().copied().filter(|meaning| meaning.tells()).collect();
    let mut says: Vec<_> = unanswered(regions).into_iter().collect();
    let Some(stored) = stored else {
        says.push(
            "nothing is stored for this caller: the next read asks the regions; give --header what callers send, Accept \
             and credentials included (nearside ctl inspect --path shows whatever is stored of the path)",
        );
        return says;
    };
    if is_below(&stored.versions, floors) {
        says.push(
            "what is stored is older than what was announced or served, and does not count as fresh: the next read asks \
             the regions",
        );
    }
    if reported.is_empty() {
        return says;
    }
    if reported.iter().any(|it| it.surprises()) {
        says.push(
            "`nearside ctl refresh --path PATH` mends this one now; the findings in /status and `nearside doctor --path \
             PATH` say why it was not noticed",
        );
        if reported.iter().any(|it| !it.surprises()) {
            says.push(
                "the regions differ: one of them lags or has other data, and the next answer may be another one's",
            );
        }
    } else if reported.iter().all(|it| it.lags()) {
        says.push(
            "every region that answered is behind what is known: they have not got it yet, or they were restored, or \
             versions began anew; if it will never come, `nearside ctl reset --record TYPE:KEY`",
        );
    } else if reported.iter().any(|it| it.lags()) && !is_below(&stored.versions, floors) {
        says.push("what is stored is the newest that is known: the data is old in the region, not here");
    } else if says.is_empty() && reported.iter().all(|it| matches!(it, Meaning::Same { .. })) {
        says.push("what is stored is what the regions that answered say: if it is old, it is old at the source");
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status, a version (0: none) and content.
    type Shown = (u16, u64, &'static str);

    fn content((status, version, digest): Shown) -> ContentSeen {
        let versions = if version == 0 { vec![] } else { vec![version] };
        ContentSeen { status, versions, etag: None, bytes: 1, digest: digest.to_owned() }
    }

    /// Versions of what is stored, the floor, those that regions answer (`None`: nothing), the
    /// beginnings of what is said of each, and the beginnings of the advice's sentences.
    type Row = (Option<Shown>, u64, &'static [Option<Shown>], &'static [&'static str], &'static [&'static str]);

    const LAGS: &str = "it lags: something newer was announced";
    const NOBODY: &str = "it did not answer";
    const REFRESH: &str = "`nearside ctl refresh";
    const NO_REGION: &str = "no region answered with the record";
    const OLDER: &str = "what is stored is older than what was announced";
    const OLD: &str = "it has a newer version, and nobody announced";
    const SOURCE: &str = "what is stored is what the regions that answered say";
    const NEWEST: &str = "what is stored is the newest that is known";
    const ALL_LAG: &str = "every region that answered is behind";
    const DIFFER: &str = "the regions differ";
    const V5: Option<Shown> = Some((200, 5, "a"));
    const V6: Option<Shown> = Some((200, 6, "b"));
    const GONE: Option<Shown> = Some((404, 0, "c"));
    const FAILS: Option<Shown> = Some((503, 0, "d"));
    const PLAIN: Option<Shown> = Some((200, 0, "a"));

    const TABLE: &[Row] = &[
        (V5, 5, &[V5, V5], &["the same version and content"; 2], &[SOURCE]),
        (V5, 5, &[V5, None], &["the same version and content", NOBODY], &[SOURCE]),
        (PLAIN, 0, &[PLAIN], &["the same content"], &[SOURCE]),
        (PLAIN, 0, &[Some((200, 0, "b"))], &["other content, and no version"], &[REFRESH]),
        (V5, 5, &[Some((200, 5, "b"))], &["the same version with other content"], &[REFRESH]),
        (V5, 5, &[V6, V6], &[OLD, OLD], &[REFRESH]),
        (V5, 5, &[V6, V5], &[OLD, "the same version and content"], &[REFRESH, DIFFER]),
        // Floors against what is stored.
        (V5, 6, &[V6, V6], &["it has a newer version, which was announced"; 2], &[OLDER]),
        (V5, 6, &[V6, V5], &["it has a newer version, which was announced", LAGS], &[OLDER]),
        (V5, 6, &[V5, V5], &[LAGS, LAGS], &[OLDER, ALL_LAG]),
        (V5, 6, &[Some((200, 7, "b"))], &[OLD], &[OLDER, REFRESH]),
        (V6, 6, &[V5, V6], &[LAGS, "the same version and content"], &[NEWEST]),
        (V6, 6, &[V5, V5], &[LAGS, LAGS], &[ALL_LAG]),
        (V6, 0, &[V5, V6], &["it lags: what is stored is newer", "the same version and content"], &[NEWEST]),
        // Absences.
        (V5, 5, &[GONE, GONE], &["it says 404, and 200 is stored"; 2], &[REFRESH]),
        (V5, 5, &[GONE, V5], &["it says 404, and 200 is stored", "the same version and content"], &[REFRESH, DIFFER]),
        (V5, 5, &[Some((410, 6, "c"))], &[OLD], &[REFRESH]),
        (GONE, 0, &[PLAIN], &["it says 200, and 404 is stored"], &[REFRESH]),
        (GONE, 5, &[GONE], &["the same content"], &[SOURCE]),
        (Some((404, 6, "c")), 6, &[V5], &[LAGS], &[ALL_LAG]),
        // No answer.
        (V5, 5, &[None, None], &[NOBODY, NOBODY], &[NO_REGION]),
        (V5, 6, &[None, FAILS], &[NOBODY, "it says 503, which tells nothing"], &[NO_REGION, OLDER]),
        (V5, 5, &[], &[], &[NO_REGION]),
        (V5, 5, &[Some((403, 0, "d")), V5], &["it says 403", "the same version and content"], &[SOURCE]),
        (None, 0, &[None], &[NOBODY], &[NO_REGION, "nothing is stored for this caller"]),
        (None, 0, &[V5], &["nothing is stored to compare"], &["nothing is stored for this caller"]),
        (None, 6, &[V5], &[LAGS], &["nothing is stored for this caller"]),
        (FAILS, 0, &[FAILS], &["the same content"], &[SOURCE]),
    ];

    #[test]
    fn each_case_has_verdict_and_advice() {
        for (stored, floor, regions, says, advice) in TABLE {
            let of = format!("{stored:?}, floor {floor}, {regions:?}");
            let (stored, floors) = (stored.map(content), [*floor]);
            let meanings: Vec<_> = regions
                .iter()
                .map(|region| match region {
                    Some(shown) => meaning(&content(*shown), stored.as_ref(), &floors),
                    None => Meaning::Unanswered,
                })
                .collect();
            let status = stored.as_ref().map(|stored| stored.status);
            for ((meaning, region), expected) in meanings.iter().zip(*regions).zip(*says) {
                let text = meaning.text(region.unwrap_or_default().0, status);
                assert!(text.starts_with(expected), "{of}: {text}");
            }
            let said = verdict(stored.as_ref(), &[], &floors, &meanings);
            assert_eq!(said.len(), advice.len(), "{of}: {said:?}");
            said.iter().zip(*advice).for_each(|(said, begins)| assert!(said.starts_with(begins), "{of}: {said}"));
        }
    }

    #[test]
    fn passed_headers_are_named_with_advice() {
        let names = ["x-tenant".to_owned(), "origin".to_owned()];
        let said = verdict(None, &names, &[0], &[Meaning::NothingStored, Meaning::Unanswered]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("a request with x-tenant, origin is passed on whole"), "{said:?}");
        let said = verdict(None, &names, &[0], &[Meaning::Unanswered]);
        assert!(said.len() == 2 && said[0].starts_with(NO_REGION), "{said:?}");
    }

    #[test]
    fn versions_are_compared_record_by_record() {
        for (shown, floors, expected) in [
            ([0, 7], [9, 7], Meaning::Same { by_version: false }),
            ([3, 6], [0, 0], Meaning::BelowStored),
            ([3, 8], [3, 8], Meaning::Announced),
            ([3, 8], [3, 7], Meaning::Unannounced),
        ] {
            let [shown, stored] =
                [shown, [0, 7]].map(|versions| ContentSeen { versions: versions.to_vec(), ..content((200, 0, "a")) });
            assert_eq!(meaning(&shown, Some(&stored), &floors), expected, "{shown:?} above {floors:?}");
        }
    }
}
