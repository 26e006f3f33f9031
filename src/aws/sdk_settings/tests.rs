//! Settings of the SDK as environments and profile files have them.

use std::collections::BTreeMap;

use super::*;

fn with(variables: &[(&str, &str)]) -> SdkSettings {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    read(|name| variables.get(name).map(|value| (*value).to_owned()))
}

/// The settings where the config file says this.
fn with_profile(text: &str, variables: &[(&str, &str)]) -> SdkSettings {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, text).unwrap();
    with(&[&[("AWS_CONFIG_FILE", file.to_str().unwrap())], variables].concat())
}

#[test]
fn empty_variables_count_as_unset() {
    let names = RULES.iter().map(|rule| (rule.0, "")).filter(|(name, _)| !name.contains("_KEY"));
    let names: Vec<_> = KEYS.into_iter().chain(names).collect();
    let settings = with(&names);
    assert_eq!((settings.fatal, settings.ignored, settings.endpoints), (vec![], vec![], vec![]));
    assert_eq!(with(&[("AWS_PROFILE", "")]).profile, "default");
    let both = with(&[("AWS_ENDPOINT_URL_SQS", ""), ("AWS_ENDPOINT_URL", "http://a")]);
    assert_eq!(both.endpoint("SQS"), Some("http://a"));
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
const ROLE: &str = "arn:aws:iam::123456789012:role/r";

/// Names and values.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// The variables at fault, for calls and for nothing.
fn faults(profile: &str, variables: &[(&str, &str)]) -> [Vec<String>; 2] {
    let settings = with_profile(profile, variables);
    [settings.fatal, settings.ignored].map(|list| list.iter().map(|wrong| wrong.place.to_string()).collect())
}

/// The SDK has no option to treat them as unset.
#[test]
fn empty_variable_read_by_sdk_refused() {
    let (file, role) = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN");
    let (relative, full) = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    let (token, endpoint) = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let off = ("AWS_EC2_METADATA_DISABLED", "true");
    let cases: [(Variables, &[&str]); 16] = [
        (&[(file, ""), (role, ROLE)], &[file]),
        (&[(file, ""), (role, "")], &[role, file]),
        (&[(file, "/dev/null"), (role, ROLE), ("AWS_ROLE_SESSION_NAME", "")], &["AWS_ROLE_SESSION_NAME"]),
        (&[(file, ""), (relative, "/v2/credentials")], &[]),
        (&[(file, ""), (role, ROLE), (relative, "/v2/credentials")], &[file]),
        (&[("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")], &[]),
        (&[(endpoint, "http://127.0.0.1:1"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "")], &[]),
        (&[(relative, "")], &[relative]),
        (&[(relative, ""), (full, "http://169.254.170.23/v1/credentials")], &[relative]),
        (&[(full, "")], &[full]),
        (&[(relative, "/v2/credentials"), (full, "")], &[]),
        (&[(relative, "/v2/credentials"), (token, "")], &[token]),
        (&[(token, "")], &[token]),
        (&[(endpoint, ""), ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "")], &[endpoint]),
        (&[(endpoint, ""), off], &[]),
        (&[(endpoint, ""), (relative, "/v2/credentials")], &[]),
    ];
    for (variables, wrong) in cases {
        assert_eq!(faults("", variables)[0], wrong, "{variables:?}");
        assert_eq!(faults("", &[variables, &KEYS].concat())[0], [""; 0], "keys go before {variables:?}");
        let keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n";
        assert_eq!(faults(keys, variables)[0], [""; 0], "a profile goes before {variables:?}");
    }
}

#[test]
fn settings_unread_by_sdk_are_skipped() {
    let wrong = [
        ("AWS_ROLE_ARN", "role"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/dev"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "none"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "none"),
    ];
    let [fatal, ignored] = faults("", &[&wrong[..], &KEYS].concat());
    assert_eq!((fatal.len(), ignored.len()), (0, 4));
    assert_eq!(
        faults("", &wrong)[0],
        ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"],
        "the first that is configured"
    );
    assert_eq!(faults(&role_from("EcsContainer"), &wrong)[0], ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]);
    assert_eq!(faults(&role_from("Ec2InstanceMetadata"), &wrong)[0], ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]);
    let absent = ("AWS_PROFILE", "absent");
    assert_eq!(faults("", &[absent])[0], ["AWS_PROFILE"]);
    let container = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials");
    for no_profile in ["", "[absent]\nregion = eu-west-1\n", "[services local]\n"] {
        assert_eq!(
            faults(no_profile, &[absent, container]),
            [vec![], vec!["AWS_PROFILE".to_owned()]],
            "{no_profile}"
        );
    }
    assert_eq!(faults("[default]\n", &[absent, container])[0], ["AWS_PROFILE"], "the SDK goes on but once");
}

fn role_from(source: &str) -> String {
    format!("[default]\nrole_arn = {ROLE}\ncredential_source = {source}\n")
}

#[test]
fn wrong_variables_named_without_values() {
    for Rule(name, _, _, fatal) in RULES {
        // So that the source is asked which reads it.
        let from =
            if name.starts_with("AWS_ROLE") { ("AWS_WEB_IDENTITY_TOKEN_FILE", "/dev/null") } else { ("A", "") };
        let settings = with(&[from, (name, "\u{7f}wrong\nvalue")]);
        // A token file that is not there yet is awaited.
        let found = if *fatal && !name.ends_with("_FILE") { &settings.fatal } else { &settings.ignored };
        let named = found.iter().find(|it| it.place == Place::Variable((*name).into()));
        let named = named.unwrap_or_else(|| panic!("{name}: {settings:?}"));
        assert!(!named.suggestion.is_empty());
        assert!(name.ends_with("_FILE") || !named.to_string().contains("wrong\nvalue"), "{named}");
    }
}

#[test]
fn keys_in_variables_need_no_profile() {
    let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let absent = [("AWS_PROFILE", "absent")];
    for (profile, variables) in [
        ("[default]\nsso_session = s\n", &[][..]),
        ("[default]\nregion = eu-west-1\n[profile x]\n# fine\nwrong line\n", &[]),
        ("", &absent),
    ] {
        assert!(!with_profile(profile, variables).fatal.is_empty(), "{profile}");
        let settings = with_profile(profile, &[&keys, variables].concat());
        assert_eq!(settings.fatal, vec![], "{profile}");
        assert!(!settings.ignored.is_empty(), "{profile}");
    }
    let elsewhere = with_profile("[default]\nendpoint_url = none\n", &keys);
    assert_eq!(elsewhere.fatal.len(), 1, "calls would go elsewhere");
}

#[test]
fn config_and_credentials_files_are_merged() {
    let split = with_files("[default]\naws_access_key_id = key\n", "[default]\naws_secret_access_key = secret\n");
    assert_eq!(split.fatal, vec![], "each half in its file");
    let wrong = with_files("[default]\nendpoint_url = none\n", "[default]\nendpoint_url = http://a\n");
    assert_eq!((wrong.fatal.len(), wrong.endpoint("SNS")), (0, Some("http://a")), "the credentials file goes before");
    assert_eq!(with_files(&role_of_x("[profile x]\n"), "").fatal.len(), 0);
    assert_eq!(with_files(&role_of_x(""), "[x]\n").fatal.len(), 0);
    assert_eq!(
        with_files(&role_of_x("[x]\n"), "").fatal.len(),
        1,
        "without its prefix it is none in the config file"
    );
}

/// The settings where the two profile files say this.
fn with_files(config: &str, credentials: &str) -> SdkSettings {
    let directory = tempfile::tempdir().unwrap();
    let files = ["config", "credentials"].map(|name| directory.path().join(name));
    std::fs::write(&files[0], config).unwrap();
    std::fs::write(&files[1], credentials).unwrap();
    let files = files.map(|file| file.to_str().unwrap().to_owned());
    with(&[("AWS_CONFIG_FILE", &*files[0]), ("AWS_SHARED_CREDENTIALS_FILE", &*files[1])])
}

/// A profile whose role the profile `x` assumes, and what follows.
fn role_of_x(after: &str) -> String {
    format!("[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = x\n{after}")
}

#[test]
fn unreadable_home_counts_as_empty() {
    let settings = with(&[("HOME", "/dev/null")]);
    assert_eq!((settings.fatal.len(), settings.ignored.len()), (0, 2));
}

#[test]
fn endpoints_come_from_service_then_all() {
    let profile =
        "[default]\nendpoint_url = http://p\nservices = s\n[services s]\nsqs =\n  endpoint_url = http://s\n";
    let settings = with_profile(profile, &[]);
    assert_eq!((settings.endpoint("SQS"), settings.endpoint("SNS")), (Some("http://s"), Some("http://p")));
    let settings = with_profile(profile, &[("AWS_ENDPOINT_URL", "http://e"), ("AWS_ENDPOINT_URL_SNS", "http://n")]);
    assert_eq!((settings.endpoint("SQS"), settings.endpoint("SNS")), (Some("http://e"), Some("http://n")));
    let ignored = with_profile(profile, &[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")]);
    assert_eq!(ignored.endpoint("SQS"), None);
}

#[test]
fn wrong_profile_lines_report_position() {
    let settings = with_profile(
        "[default]\nuse_fips_endpoint = maybe\nmax_attempts = abc\nrole_arn = arn:aws:iam::1:role/r\n",
        &[],
    );
    let [fatal, ignored] = [&settings.fatal, &settings.ignored]
        .map(|list| list.iter().map(|wrong| wrong.to_string()).collect::<Vec<_>>());
    assert!(fatal[0].contains("config:2:1: use_fips_endpoint: neither true nor false"), "{fatal:?}");
    assert!(fatal[1].contains("config:4:1: role_arn: nothing says who assumes it"), "{fatal:?}");
    assert!(ignored[0].contains("config:3:1: max_attempts"), "{settings:?}");
}

#[test]
fn well_made_settings_are_all_taken() {
    let settings = with_profile(
        "[profile p]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = base\nregion = eu-west-1\n\
         [profile base]\naws_access_key_id = a\naws_secret_access_key = b/+=\n",
        &[
            ("AWS_PROFILE", "p"),
            ("AWS_MAX_ATTEMPTS", "3"),
            ("AWS_RETRY_MODE", "Standard"),
            ("AWS_REGION", "eu-west-1"),
        ],
    );
    assert_eq!((settings.fatal, settings.ignored), (vec![], vec![]));
}
