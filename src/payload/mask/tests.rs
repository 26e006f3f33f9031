//! What a mask says, sentence by sentence.

use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> String {
    Mask::literal(text).unwrap_or_else(|error| panic!("{text}: {error}")).canonical().to_owned()
}

fn mistake(text: &str) -> MaskError {
    Mask::literal(text).expect_err(text)
}

fn taken(target: &str) -> (String, Option<String>) {
    let taken = take(target, "fields");
    let meant = taken.encoded.map(|encoded| decoded(&encoded).expect("it is UTF-8"));
    (taken.path_and_query.into_owned(), meant)
}

#[test]
fn a_mask_is_sorted_and_has_no_duplicates() {
    assert_eq!(canonical("b,a,b,c.d,a"), "a,b,c.d");
    assert_eq!(canonical("a-b,a.c,a.b"), "a.b,a.c,a-b", "by names: a path comes right before what it covers");
}

#[test]
fn a_path_covers_what_begins_with_it() {
    assert_eq!(canonical("a.b.c,a.b,a.c.d"), "a.b,a.c.d");
    assert_eq!(canonical("a.b,a-b,a"), "a,a-b");
    assert_eq!(canonical("ab,a"), "a,ab", "a name that begins with another is another name");
}

#[test]
fn a_star_is_everything_and_so_is_an_empty_mask() {
    for text in ["*", "", " ", ",", "a,*,b", " * "] {
        let mask = Mask::literal(text).expect(text);
        assert!(mask.is_everything(), "{text}");
        assert_eq!(mask.canonical(), "*");
    }
    assert!(!Mask::literal("`*`").expect("a name in quotes").is_everything());
}

#[test]
fn empty_paths_and_spaces_around_paths_do_not_count() {
    assert_eq!(canonical(" a , ,b.c ,, "), "a,b.c");
    assert_eq!(canonical("first name.x"), "first name.x", "inside a name they do");
}

#[test]
fn backticks_quote_dots_and_commas_and_two_of_them_are_one() {
    assert_eq!(canonical("labels.`app.kubernetes.io/name`"), "labels.`app.kubernetes.io/name`");
    assert_eq!(canonical("`a,b`.c,`a`.d"), "a.d,`a,b`.c");
    let mask = Mask::literal("`a``b`.````.``,` c `").expect("quotes are closed");
    let names: Vec<Vec<_>> =
        mask.paths().iter().map(|path| path.iter().map(|name| name.to_string()).collect()).collect();
    assert_eq!(names, [vec![" c "], vec!["a`b", "`", ""]]);
    assert_eq!(mask.canonical(), "` c `,`a``b`.````.``");
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let path = |text: &str| text.to_owned();
    assert_eq!(mistake("a,b..c"), MaskError::EmptyName(path("b..c")));
    assert_eq!(mistake(".a"), MaskError::EmptyName(path(".a")));
    assert_eq!(mistake("a."), MaskError::EmptyName(path("a.")));
    assert_eq!(mistake("x,a`b"), MaskError::Quote(path("a`b")));
    assert_eq!(mistake("`a`b,c"), MaskError::Quote(path("`a`b")));
    assert_eq!(mistake("`a"), MaskError::Quote(path("`a")));
    assert_eq!(mistake("a.*.b"), MaskError::Wildcard(path("a.*.b")));
    assert_eq!(mistake("a.*"), MaskError::Wildcard(path("a.*")));
    assert!(mistake("a.*").to_string().contains("\"a.*\""));
}

#[test]
fn paths_depth_and_length_are_bounded() {
    let paths = |count: usize| (0..count).map(|it| format!("f{it}")).collect::<Vec<_>>().join(",");
    assert!(Mask::literal(&paths(MASK_PATHS)).is_ok());
    assert_eq!(mistake(&paths(MASK_PATHS + 1)), MaskError::TooManyPaths);
    assert!(Mask::literal(&vec!["a"; MASK_DEPTH].join(".")).is_ok());
    let deep = vec!["a"; MASK_DEPTH + 1].join(".");
    assert_eq!(mistake(&deep), MaskError::TooDeep(deep.clone()));
    assert!(Mask::literal(&"a".repeat(MASK_BYTES)).is_ok());
    assert_eq!(mistake(&"a".repeat(MASK_BYTES + 1)), MaskError::TooLong);
    let long = |_: &[&str]| Some(vec!["a".repeat(MASK_BYTES + 1)]);
    assert_eq!(Mask::parse("a", long), Err(MaskError::TooLong));
    let deep = |_: &[&str]| Some(vec![String::new(); MASK_DEPTH + 1]);
    assert_eq!(Mask::parse("a.b", deep), Err(MaskError::TooDeep("a.b".to_owned())));
}

#[test]
fn a_schema_resolves_both_namings_and_an_unknown_path_is_a_mistake_that_names_it() {
    let names = |path: &[&str]| match path {
        ["unit_price" | "unitPrice"] => Some(vec!["unitPrice".to_owned()]),
        ["unit_price" | "unitPrice", "currency_code"] => {
            Some(vec!["unitPrice".to_owned(), "currencyCode".to_owned()])
        }
        _ => None,
    };
    let mask = Mask::parse("unit_price.currency_code,unitPrice.currency_code", names).expect("both are known");
    assert_eq!(mask.canonical(), "unitPrice.currencyCode");
    assert_eq!(Mask::parse("unit_price,unit_price.currency_code", names).expect("known").canonical(), "unitPrice");
    assert_eq!(Mask::parse("unitPrice,price.`x.y`", names), Err(MaskError::Unknown("price.`x.y`".to_owned())));
    assert!(Mask::parse("*", names).expect("a star is no path").is_everything());
    assert_eq!(Mask::parse("a", |_| Some(Vec::new())), Err(MaskError::Unknown("a".to_owned())));
}

#[test]
fn an_id_is_the_canonical_forms_and_never_changes() {
    let id = |text: &str| Mask::literal(text).expect(text).id();
    assert_eq!(id("b,a.c,a"), id("a,b"));
    assert_ne!(id("a"), id("b"));
    assert_eq!(id("a,b.c"), 4_505_813_549_368_371_209, "validators that callers keep are made of it");
}

#[test]
fn the_parameter_leaves_the_query_and_every_other_byte_stays() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(taken("/a%2F?x=%31&fields=a.b&y=+"), ("/a%2F?x=%31&y=+".to_owned(), some("a.b")));
    assert_eq!(taken("/a?fields=a"), ("/a".to_owned(), some("a")));
    assert_eq!(taken("/a?fields=a&x"), ("/a?x".to_owned(), some("a")));
    assert_eq!(taken("/a?x&&fields"), ("/a?x&".to_owned(), some("")));
    assert_eq!(taken("/a?&fields=a"), ("/a".to_owned(), some("a")), "nothing is left behind the ?");
    assert_eq!(taken("/a?x=fields&Fields=1&fieldss=2"), ("/a?x=fields&Fields=1&fieldss=2".to_owned(), None));
    for untouched in ["/a", "/a?", "/fields=a", "/a?&"] {
        assert_eq!(taken(untouched), (untouched.to_owned(), None));
    }
}

#[test]
fn of_several_parameters_the_values_are_joined_by_commas() {
    assert_eq!(taken("/a?fields=a&x=1&fields=b,c"), ("/a?x=1".to_owned(), Some("a,b,c".to_owned())));
}

#[test]
fn a_value_is_decoded_as_a_forms_is() {
    assert_eq!(taken("/?fields=a%2Cb%60%20+c%2B").1.as_deref(), Some("a,b`  c+"));
    assert_eq!(taken("/?f%69elds=%zz%").1.as_deref(), Some("%zz%"), "the name too; what is no escape stays");
    assert_eq!(decoded("%ff"), Err(MaskError::NotUtf8));
}

#[test]
fn a_route_remembers_masks_and_no_mistakes() {
    let masks = Masks::default();
    let first = masks.read("b,a", Mask::literal).expect("a mask");
    let second = masks.read("b,a", |_| unreachable!("it was read before")).expect("the same");
    assert_eq!(first, second);
    assert!(masks.read("a..b", Mask::literal).is_err());
    assert!(masks.read("a..b", Mask::literal).is_err(), "nothing was kept of it");
    assert_eq!(masks.read("a", Mask::literal).expect("another").canonical(), "a");
}

proptest! {
    #[test]
    fn a_canonical_form_is_its_own_canonical_form(text in "[ab.,`* é]{0,24}") {
        if let Ok(mask) = Mask::literal(&text) {
            let again = Mask::literal(mask.canonical()).expect("it is a mask");
            prop_assert_eq!(&again, &mask);
            let same = |path: &[&str]| Some(path.iter().map(|name| (*name).to_owned()).collect());
            prop_assert_eq!(Mask::parse(&text, same), Ok(mask));
        }
    }

    #[test]
    fn what_names_make_up_reads_back(paths in prop::collection::vec(prop::collection::vec("[ab.,`* é]{0,4}", 1..4), 1..6)) {
        let mut left: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        left.sort();
        left.dedup_by(|later, earlier| later.starts_with(earlier));
        let quoted = |name: &String| format!("`{}`", name.replace('`', "``"));
        let text = |path: &Vec<String>| path.iter().map(quoted).collect::<Vec<_>>().join(".");
        let text = paths.iter().map(text).collect::<Vec<_>>().join(" , ");
        let mask = Mask::literal(&text).expect("everything is quoted");
        let read: Vec<Vec<String>> = mask.paths().iter().map(|it| it.iter().map(|name| name.to_string()).collect()).collect();
        prop_assert_eq!(read, left);
    }
}
