//! Rules for masks, sentence by sentence.

use proptest::prelude::*;

use super::*;
use crate::payload::limits::{MASK_BYTES, MASK_DEPTH, MASK_PATHS};

fn canonical(text: &str) -> String {
    Mask::literal(text).unwrap_or_else(|error| panic!("{text}: {error}")).canonical().to_owned()
}

fn error(text: &str) -> MaskError {
    Mask::literal(text).expect_err(text)
}

fn taken(target: &str) -> (String, Option<String>) {
    let taken = take(target, "fields");
    let meant = taken.encoded.map(|encoded| decoded(&encoded).expect("it is UTF-8"));
    (taken.path_and_query.into_owned(), meant)
}

#[test]
fn mask_is_sorted_without_duplicates() {
    assert_eq!(canonical("b,a,b,c.d,a"), "a,b,c.d");
    assert_eq!(canonical("a-b,a.c,a.b"), "a.b,a.c,a-b", "by names: a path comes right before what it covers");
}

#[test]
fn path_covers_its_descendants() {
    assert_eq!(canonical("a.b.c,a.b,a.c.d"), "a.b,a.c.d");
    assert_eq!(canonical("a.b,a-b,a"), "a,a-b");
    assert_eq!(canonical("ab,a"), "a,ab", "a name that begins with another is another name");
}

#[test]
fn star_and_empty_mask_select_everything() {
    for text in ["*", "", " ", ",", "a,*,b", " * "] {
        let mask = Mask::literal(text).expect(text);
        assert!(mask.is_everything(), "{text}");
        assert_eq!(mask.canonical(), "*");
    }
    assert!(!Mask::literal("`*`").expect("a name in quotes").is_everything());
}

#[test]
fn empty_paths_and_spaces_are_ignored() {
    assert_eq!(canonical(" a , ,b.c ,, "), "a,b.c");
    assert_eq!(canonical("first name.x"), "first name.x", "inside a name they do");
}

#[test]
fn backticks_quote_and_double_to_escape() {
    assert_eq!(canonical("labels.`app.kubernetes.io/name`"), "labels.`app.kubernetes.io/name`");
    assert_eq!(canonical("`a,b`.c,`a`.d"), "a.d,`a,b`.c");
    let mask = Mask::literal("`a``b`.````.``,` c `").expect("quotes are closed");
    let names: Vec<Vec<_>> =
        mask.paths().iter().map(|path| path.iter().map(|name| name.to_string()).collect()).collect();
    assert_eq!(names, [vec![" c "], vec!["a`b", "`", ""]]);
    assert_eq!(mask.canonical(), "` c `,`a``b`.````.``");
}

#[test]
fn error_names_its_path() {
    assert_eq!(error("a,b..c"), MaskError::EmptyName("b..c".to_owned()));
    assert_eq!(error(".a"), MaskError::EmptyName(".a".to_owned()));
    assert_eq!(error("a."), MaskError::EmptyName("a.".to_owned()));
    assert_eq!(error("x,a`b"), MaskError::Quote("a`b".to_owned()));
    assert_eq!(error("`a`b,c"), MaskError::Quote("`a`b".to_owned()));
    assert_eq!(error("`a"), MaskError::Quote("`a".to_owned()));
    assert_eq!(error("a.*.b"), MaskError::Wildcard("a.*.b".to_owned()));
    assert_eq!(error("a.*"), MaskError::Wildcard("a.*".to_owned()));
    assert!(error("a.*").to_string().contains("\"a.*\""));
}

#[test]
fn paths_depth_and_length_are_bounded() {
    assert!(Mask::literal(&paths(MASK_PATHS)).is_ok());
    assert_eq!(error(&paths(MASK_PATHS + 1)), MaskError::TooManyPaths);
    assert!(Mask::literal(&vec!["a"; MASK_DEPTH].join(".")).is_ok());
    let deep = vec!["a"; MASK_DEPTH + 1].join(".");
    assert_eq!(error(&deep), MaskError::TooDeep(deep.clone()));
    assert!(Mask::literal(&"a".repeat(MASK_BYTES)).is_ok());
    assert_eq!(error(&"a".repeat(MASK_BYTES + 1)), MaskError::TooLong);
    assert_eq!(Mask::parse("a", |_| Some(vec!["a".repeat(MASK_BYTES + 1)])), Err(MaskError::TooLong));
    assert_eq!(
        Mask::parse("a.b", |_| Some(vec![String::new(); MASK_DEPTH + 1])),
        Err(MaskError::TooDeep("a.b".to_owned()))
    );
}

fn paths(count: usize) -> String {
    (0..count).map(|it| format!("f{it}")).collect::<Vec<_>>().join(",")
}

#[test]
fn schema_resolves_namings_rejects_unknown_path() {
    let mask = Mask::parse("unit_price.currency_code,unitPrice.currency_code", names).expect("both are known");
    assert_eq!(mask.canonical(), "unitPrice.currencyCode");
    assert_eq!(Mask::parse("unit_price,unit_price.currency_code", names).expect("known").canonical(), "unitPrice");
    assert_eq!(Mask::parse("unitPrice,price.`x.y`", names), Err(MaskError::Unknown("price.`x.y`".to_owned())));
    assert!(Mask::parse("*", names).expect("a star is no path").is_everything());
    assert_eq!(Mask::parse("a", |_| Some(Vec::new())), Err(MaskError::Unknown("a".to_owned())));
}

/// Names of a schema that knows a unit price and its currency.
fn names(path: &[&str]) -> Option<Vec<String>> {
    match path {
        ["unit_price" | "unitPrice"] => Some(vec!["unitPrice".to_owned()]),
        ["unit_price" | "unitPrice", "currency_code"] => {
            Some(vec!["unitPrice".to_owned(), "currencyCode".to_owned()])
        }
        _ => None,
    }
}

#[test]
fn mask_id_is_canonical_and_stable() {
    assert_eq!(id("b,a.c,a"), id("a,b"));
    assert_ne!(id("a"), id("b"));
    assert_eq!(id("a,b.c"), 4_505_813_549_368_371_209, "validators that callers keep are made of it");
}

fn id(text: &str) -> u64 {
    Mask::literal(text).expect(text).id()
}

#[test]
fn only_parameter_is_removed_from_query() {
    for (target, left, fields) in [
        ("/a%2F?x=%31&fields=a.b&y=+", "/a%2F?x=%31&y=+", "a.b"),
        ("/a?fields=a", "/a", "a"),
        ("/a?fields=a&x", "/a?x", "a"),
        ("/a?x&&fields", "/a?x&", ""),
        // Nothing is left behind the ?.
        ("/a?&fields=a", "/a", "a"),
    ] {
        assert_eq!(taken(target), (left.to_owned(), Some(fields.to_owned())), "{target}");
    }
    assert_eq!(taken("/a?x=fields&Fields=1&fieldss=2"), ("/a?x=fields&Fields=1&fieldss=2".to_owned(), None));
    for untouched in ["/a", "/a?", "/fields=a", "/a?&"] {
        assert_eq!(taken(untouched), (untouched.to_owned(), None));
    }
}

#[test]
fn repeated_parameters_join_by_commas() {
    assert_eq!(taken("/a?fields=a&x=1&fields=b,c"), ("/a?x=1".to_owned(), Some("a,b,c".to_owned())));
}

#[test]
fn value_is_form_urldecoded() {
    assert_eq!(taken("/?fields=a%2Cb%60%20+c%2B").1.as_deref(), Some("a,b`  c+"));
    assert_eq!(taken("/?f%69elds=%zz%").1.as_deref(), Some("%zz%"), "the name too; what is no escape stays");
    assert_eq!(decoded("%ff"), Err(MaskError::NotUtf8));
}

#[test]
fn route_caches_masks_but_no_errors() {
    let masks = Masks::default();
    let first = masks.read("b,a", Mask::literal).expect("a mask");
    let second = masks.read("b,a", |_| unreachable!("it was read before")).expect("the same");
    assert_eq!(first, second);
    assert!(masks.read("a..b", Mask::literal).is_err());
    assert!(masks.read("a..b", Mask::literal).is_err(), "nothing was kept of it");
    assert_eq!(masks.read("a", Mask::literal).expect("another").canonical(), "a");
}

fn quoted(path: &[String]) -> String {
    path.iter().map(|name| format!("`{}`", name.replace('`', "``"))).collect::<Vec<_>>().join(".")
}

proptest! {
    #[test]
    fn canonical_form_is_idempotent(text in "[ab.,`* é]{0,24}") {
        if let Ok(mask) = Mask::literal(&text) {
            let again = Mask::literal(mask.canonical()).expect("it is a mask");
            prop_assert_eq!(&again, &mask);
            prop_assert_eq!(Mask::parse(&text, |path| Some(path.iter().map(|name| (*name).to_owned()).collect())), Ok(mask));
        }
    }

    #[test]
    fn quoted_names_round_trip(paths in prop::collection::vec(prop::collection::vec("[ab.,`* é]{0,4}", 1..4), 1..6)) {
        let mut left: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        left.sort();
        left.dedup_by(|later, earlier| later.starts_with(earlier));
        let text = paths.iter().map(|path| quoted(path)).collect::<Vec<_>>().join(" , ");
        let mask = Mask::literal(&text).expect("everything is quoted");
        let read: Vec<Vec<String>> = mask.paths().iter().map(|it| it.iter().map(|name| name.to_string()).collect()).collect();
        prop_assert_eq!(read, left);
    }
}
