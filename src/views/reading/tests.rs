//! Files that the reader takes, and those that it refuses.

use super::*;

const LIMITS: &str = r#"
[[view]]
name = "limits"
definition = 3
from = "tenant"
needs = { shard = "shard:{/shard}", plan = "plan:eu-{/plan/id}" }
required = ["shard"]
[view.fields]
users = "/limits/users"
host = "shard:/host"
plan = { value = "standard" }
also = { value = { list = [1, true, "x"] } }
"#;

fn errors(text: &str, types: Option<&[&str]>) -> Vec<String> {
    let types: Option<Vec<String>> = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
    read("views.toml", text, types.as_deref()).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn view_fields_keep_file_order() {
    let views = read("views.toml", LIMITS, None).unwrap();
    let [view] = views.as_slice() else { panic!("one view") };
    assert_eq!((view.name.as_str(), view.number, view.from.as_str()), ("limits", 3, "tenant"));
    let names: Vec<_> = view.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["users", "host", "plan", "also"]);
    assert_eq!(view.fields[3].source, FieldSource::Constant(r#"{"list":[1,true,"x"]}"#.to_owned()));
    let needs: Vec<_> = view.needs.iter().map(|need| (need.alias.as_str(), need.is_required)).collect();
    assert_eq!(needs, [("plan", false), ("shard", true)]);
    assert!(matches!(view.needs[0].key.as_slice(), [KeyPart::Text(text), KeyPart::Main(_)] if text == "eu-"));
}

#[test]
fn digest_covers_all_but_number() {
    let before = digest(LIMITS);
    assert_eq!(before, digest(&LIMITS.replace("definition = 3", "definition = 4")));
    assert_eq!(before, digest(&LIMITS.replace('\n', "\n\n# a remark\n")));
    for (from, to) in [
        ("\"limits\"", "\"other\""),
        ("\"tenant\"", "\"site\""),
        ("shard:{/shard}", "shard:{/other}"),
        ("eu-{", "us-{"),
        ("required = [\"shard\"]", ""),
        ("/limits/users", "/limits/seats"),
        ("standard", "premium"),
        ("host =", "hosts ="),
    ] {
        assert_ne!(before, digest(&LIMITS.replace(from, to)), "{from}");
    }
}

fn digest(text: &str) -> String {
    read("f", text, None).unwrap()[0].digest()
}

#[test]
fn lists_all_five_config_errors() {
    let text = r#"
[[view]]
name = "Limits"
definition = 0
from = "tenant"
neeeds = {}
[view.fields]
users = "limits/users"
host = "shard:/host"
"#;
    assert_eq!(
        errors(text, None),
        [
            "views.toml:3:8: view.name: `Limits` is not a name; write `name = \"...\"`: a lower-case letter, then \
             letters, digits, `-` and `_`",
            "views.toml:4:14: view.definition: `0` is out of range; write `definition = 1`, and raise it with every \
             change of the view",
            "views.toml:6:1: view: nothing is called `neeeds`; did you mean needs?",
            "views.toml:8:9: view.fields.users: `limits/users` is no JSON Pointer; write \"/pointer\", \
             \"need:/pointer\" or { value = ... }",
            "views.toml:9:8: view.fields.host: `shard` is not among the needs; write it there: `needs = { shard = \
             \"type:{/pointer}\" }`",
        ]
    );
}

#[test]
fn each_config_error_is_found() {
    for (from, to, what) in [
        ("name = \"limits\"", "", "view.name: missing"),
        ("definition = 3", "", "view.definition: missing"),
        ("definition = 3", "definition = \"3\"", "a string where a number belongs"),
        ("definition = 3", "definition = 2000000000", "out of range"),
        ("from = \"tenant\"", "", "view.from: missing"),
        ("from = \"tenant\"", "from = 5", "a number where a name belongs"),
        ("shard:{/shard}", "{/shard}", "has no record type"),
        ("shard:{/shard}", "shard:", "has no key"),
        ("shard:{/shard}", "shard:{shard}", "is no JSON Pointer"),
        ("shard:{/shard}", "shard:{/shard", "a brace without its end"),
        ("shard:{/shard}", "shard:/shard}", "a brace without its beginning"),
        ("shard:{/shard}", "shard:{/~2}", "escapes nothing"),
        ("required = [\"shard\"]", "required = [\"shart\"]", "did you mean shard?"),
        ("required = [\"shard\"]", "required = true", "a boolean where a list belongs"),
        ("shard:/host", "shart:/host", "did you mean shard?"),
        ("shard:/host", "shard:host", "is no JSON Pointer"),
        ("\"/limits/users\"", "5", "a number where a source belongs"),
        ("{ value = \"standard\" }", "{ values = \"standard\" }", "a table that is no constant"),
        ("{ value = \"standard\" }", "{ value = 1.5 }", "a number with a point as a constant"),
        ("{ value = \"standard\" }", "{ value = 99999999999999999999 }", "beyond 64 bits"),
        ("[[view]]", "[view]", "a table where views belong"),
        ("[[view]]", "[[views]]", "did you mean view?"),
    ] {
        let found = errors(&LIMITS.replacen(from, to, 1), None);
        assert!(found.iter().any(|error| error.contains(what)), "{to}: {found:?}");
    }
    let fields: String = (0..=limits::FIELDS).map(|at| format!("f{at} = \"/a\"\n")).collect();
    let many = format!("[[view]]\nname = \"a\"\ndefinition = 1\nfrom = \"t\"\n[view.fields]\n{fields}");
    assert_eq!(errors(&many, None), ["views.toml:5:1: view.fields: 201 fields; write at most 200"]);
    assert!(errors("", None)[0].contains("no view"));
    assert!(
        errors("[[view]]\nname = \"a\"\ndefinition = 1\nfrom = \"t\"\n", None)[0].contains("view.fields: missing")
    );
}

#[test]
fn cross_checks_views_and_catalogue_types() {
    let twice = format!("{LIMITS}{LIMITS}");
    assert!(errors(&twice, None)[0].contains("a second view called `limits`"));
    let of_a_view = format!("{LIMITS}{}", LIMITS.replace("\"limits\"", "\"more\"").replace("plan:eu-", "limits:eu-"));
    let found = errors(&of_a_view, None);
    assert!(found.len() == 1 && found[0].contains("`limits` is a view"), "{found:?}");
    let found = errors(LIMITS, Some(&["tenants", "shard", "plan"]));
    assert!(found.len() == 1 && found[0].contains("no type `tenant`; did you mean tenants?"), "{found:?}");
    let types = ["tenant", "shard", "plan"].map(str::to_owned);
    assert!(read("f", LIMITS, Some(&types)).is_ok());
    let own_name = LIMITS.replace("\"limits\"", "\"tenant\"");
    assert!(read("f", &own_name, None).is_ok(), "a view may be called as the type that it is made from");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}", at in 0..300usize, junk in ".{0,4}") {
        let _ = read("f", &text, None);
        let mut spoiled = LIMITS.to_owned();
        let at = (0..=at.min(spoiled.len())).rev().find(|at| spoiled.is_char_boundary(*at)).unwrap();
        spoiled.insert_str(at, &junk);
        if let Err(errors) = read("f", &spoiled, None) {
            proptest::prop_assert!(!errors.is_empty());
        }
    }
}
