//! Settings of the AWS SDK that it cannot use: variables and profile lines, each in a program of its
//! own, a few at once.

use std::path::Path;

use futures_util::stream::{self, StreamExt};

use super::super::program::{Program, command, settings, text};
use super::super::service::Service;

/// Effect of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// `/readyz` names it, and AWS is not called.
    Named,
    /// It is as if it were not set.
    Unset,
}
use Then::{Named, Unset};

/// Variables, and what becomes of them. `@` stands for a directory with `pipe` and `text` in it.
const VARIABLES: &[(&[(&str, &str)], Then)] = &[
    (&[("AWS_ENDPOINT_URL", "")], Unset),
    (&[("AWS_ENDPOINT_URL_STS", "")], Unset),
    (&[("AWS_MAX_ATTEMPTS", "abc")], Unset),
    (&[("AWS_MAX_ATTEMPTS", "0")], Unset),
    (&[("AWS_MAX_ATTEMPTS", "-1")], Unset),
    (&[("AWS_RETRY_MODE", "fast")], Unset),
    (&[("AWS_REGION", "")], Unset),
    (&[("AWS_REGION", "no region\n")], Unset),
    (&[("AWS_PROFILE", "")], Unset),
    (&[("AWS_SESSION_TOKEN", "")], Unset),
    (&[("AWS_SDK_UA_APP_ID", "a b\u{e9}\n")], Unset),
    (&[("AWS_REQUEST_CHECKSUM_CALCULATION", "always")], Unset),
    (&[("AWS_ACCOUNT_ID_ENDPOINT_MODE", "maybe")], Unset),
    (&[("AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES", "many")], Unset),
    (&[("AWS_EC2_METADATA_DISABLED", "yes")], Unset),
    (&[("AWS_CONFIG_FILE", "")], Unset),
    (&[("AWS_ENDPOINT_URL_SQS", "localhost:4566")], Named),
    (&[("AWS_ENDPOINT_URL_SNS", "http://")], Named),
    (&[("AWS_ENDPOINT_URL_SQS", "http://a b\n")], Named),
    (&[("AWS_ACCESS_KEY_ID", "key\n")], Named),
    (&[("AWS_ACCESS_KEY_ID", "")], Named),
    (&[("AWS_SECRET_ACCESS_KEY", "secret\r\n")], Named),
    (&[("AWS_SESSION_TOKEN", "to\u{7f}ken")], Named),
    (&[("AWS_USE_FIPS_ENDPOINT", "maybe")], Named),
    (&[("AWS_USE_DUALSTACK_ENDPOINT", "1")], Named),
    (&[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "perhaps")], Named),
    (&[("AWS_CONFIG_FILE", "@/absent")], Named),
    (&[("AWS_CONFIG_FILE", "@")], Named),
    (&[("AWS_CONFIG_FILE", "@/pipe")], Named),
    (&[("AWS_CONFIG_FILE", "/dev/zero")], Named),
    (&[("AWS_SHARED_CREDENTIALS_FILE", "@/pipe")], Named),
    (&[("AWS_EXECUTION_ENV", "a\nb")], Named),
];

/// Variables of which only a source of credentials makes anything that comes after keys: with keys
/// they are as if they were not set, without any they are named.
const OF_SOURCES: &[&[(&str, &str)]] = &[
    &[("AWS_PROFILE", "absent")],
    &[("AWS_WEB_IDENTITY_TOKEN_FILE", "@/pipe"), ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")],
    &[("AWS_WEB_IDENTITY_TOKEN_FILE", ""), ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")],
    &[("AWS_WEB_IDENTITY_TOKEN_FILE", ""), ("AWS_ROLE_ARN", "")],
    &[("AWS_WEB_IDENTITY_TOKEN_FILE", "@/text")],
    &[("AWS_WEB_IDENTITY_TOKEN_FILE", "@/text"), ("AWS_ROLE_ARN", "role")],
    &[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "@/text"),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r"),
        ("AWS_ROLE_SESSION_NAME", "a name"),
    ],
    &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "none")],
    &[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "none")],
    &[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "")],
    &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")],
    &[("AWS_CONTAINER_AUTHORIZATION_TOKEN", "a\nb")],
    &[("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")],
    &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "none"), ("AWS_EC2_METADATA_DISABLED", "false")],
    &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", ""), ("AWS_EC2_METADATA_DISABLED", "false")],
    &[("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5"), ("AWS_EC2_METADATA_DISABLED", "false")],
];

const NO_KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];

/// Config files, and what becomes of their lines.
const PROFILES: &[(&str, Then)] = &[
    ("[default]\nendpoint_url =\n", Unset),
    ("[default]\nservices = mine\n[services mine]\nsqs =\n  endpoint_url =\n", Unset),
    ("[default]\nmax_attempts = none\nretry_mode = fast\n", Unset),
    ("[default]\nservices = absent\n", Unset),
    ("[default]\nendpoint_url = none\n", Named),
    ("[default]\nservices = mine\n[services mine]\nsqs =\n  endpoint_url = none\n", Named),
    ("[default\nregion = eu-west-1\n", Named),
    ("region = eu-west-1\n", Named),
    ("[default]\nregion\n", Named),
    ("[default]\n  region = eu-west-1\n", Named),
    ("[default]\naws_access_key_id = key\n", Named),
    ("[default]\nrole_arn = arn:aws:iam::123456789012:role/r\n", Named),
    ("[default]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = absent\n", Named),
    ("[default]\nrole_arn = arn:aws:iam::123456789012:role/r\ncredential_source = Somewhere\n", Named),
    ("[default]\ncredential_process = /bin/true\n", Named),
    ("[default]\nuse_fips_endpoint = maybe\n", Named),
];

/// Programs at once.
const SIDE_BY_SIDE: usize = 4;

/// Lines of the program that say that something panicked.
fn panics(program: &Program) -> Vec<String> {
    program.lines().into_iter().filter(|line| line.contains("panicked")).collect()
}

/// Starts the program with these variables, where AWS is a port that nobody listens on, and asks the
/// suite's question; then what `/readyz` says of the setting.
async fn holds(service: &Service, directory: &Path, variables: &[(&str, &str)], then: Then) {
    let topic = "arn:aws:sns:eu-west-1:123456789012:changes";
    let text = settings("sdk", &[("eu-west-1", service.urls()[0].as_str(), topic)], "[drain]\nlinger = \"0s\"\n");
    let directory = directory.to_str().unwrap();
    let program = Program::start_by(&text, |args| {
        let mut command = command(args);
        command.env("AWS_ENDPOINT_URL_SNS", "http://127.0.0.1:1").env("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1");
        command.envs(variables.iter().map(|(name, value)| (*name, value.replace('@', directory))));
        command
    })
    .await;
    let wanted = match then {
        Named => "AWS SDK's settings cannot be used",
        Unset => "AWS cannot be reached",
    };
    super::serves(&program, "alpha").await;
    let reported =
        program.until("/readyz", |page| page.to_string().contains(wanted) || !panics(&program).is_empty()).await;
    let panicked = panics(&program);
    assert!(reported.to_string().contains(wanted), "{variables:?}: {reported} {panicked:?}");
    assert!(panicked.is_empty(), "{variables:?}: {panicked:?}");
    super::stops(program).await;
}

/// Another container may write it later, or its mount come late.
#[tokio::test]
async fn late_profile_file_is_read() {
    let service = Service::start(1);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let topic = "arn:aws:sns:eu-west-1:123456789012:changes";
    let text = settings("sdk", &[("eu-west-1", service.urls()[0].as_str(), topic)], "[drain]\nlinger = \"0s\"\n");
    let program = Program::start_by(&text, |args| {
        let mut command = command(args);
        command.env("AWS_ENDPOINT_URL_SNS", "http://127.0.0.1:1").env("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1");
        command.env("AWS_CONFIG_FILE", &file);
        command
    })
    .await;
    let says =
        async |wanted: &str| program.until("/readyz", |page| page.to_string().contains(wanted)).await.to_string();
    let reported = says("AWS SDK's settings cannot be used").await;
    assert!(reported.contains("AWS_CONFIG_FILE"), "{reported}");
    std::fs::write(&file, "[default]\nregion = eu-west-1\n").unwrap();
    let reported = says("AWS cannot be reached").await;
    assert!(!reported.contains("AWS_CONFIG_FILE"), "{reported}");
    super::stops(program).await;
}

/// A directory with `text` and `pipe` in it.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("text"), "token").unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(directory.path().join("pipe")).status().unwrap();
    assert!(pipe.success());
    directory
}

#[tokio::test]
async fn keyless_unusable_source_variables_are_named() {
    let (service, directory) = (Service::start(1), files());
    let cases: Vec<_> = OF_SOURCES
        .iter()
        .flat_map(|variables| [(variables.to_vec(), Unset), ([&NO_KEYS, *variables].concat(), Named)])
        .collect();
    let all = cases.iter().map(|(variables, then)| holds(&service, directory.path(), variables, *then));
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn unusable_sdk_variables_named_or_unset() {
    let (service, directory) = (Service::start(1), files());
    let all = VARIABLES.iter().map(|(variables, then)| holds(&service, directory.path(), variables, *then));
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn unusable_profile_lines_named_or_unset() {
    let (service, directory) = (Service::start(1), tempfile::tempdir().unwrap());
    let files: Vec<_> = (0..PROFILES.len()).map(|number| directory.path().join(number.to_string())).collect();
    let all = PROFILES.iter().zip(&files).map(|((text, then), file)| {
        std::fs::write(file, text).unwrap();
        let (service, directory) = (&service, directory.path());
        // With keys in variables a profile's credentials are not used, and their faults hurt nobody.
        let keys: &[_] = match then {
            Named => &NO_KEYS,
            Unset => &[],
        };
        let variables = [&[("AWS_CONFIG_FILE", file.to_str().unwrap())], keys].concat();
        async move { holds(service, directory, &variables, *then).await }
    });
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<Vec<()>>().await;
}

/// All at once, each with its place.
#[test]
fn check_lists_unusable_sdk_settings() {
    let directory = tempfile::tempdir().unwrap();
    let (config, profile) = (directory.path().join("nearside.toml"), directory.path().join("profile"));
    let topic = "arn:aws:sns:eu-west-1:123456789012:changes";
    std::fs::write(&config, settings("sdk", &[("eu-west-1", "http://127.0.0.1:1", topic)], "")).unwrap();
    std::fs::write(&profile, "[default]\nuse_fips_endpoint = maybe\n").unwrap();
    let mut check = command(&["check", "--config", config.to_str().unwrap()]);
    check.env("AWS_CONFIG_FILE", &profile).env("AWS_MAX_ATTEMPTS", "abc").env("AWS_ACCESS_KEY_ID", "key\n");
    let output = check.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for wanted in ["profile:2:1", "use_fips_endpoint", "AWS_MAX_ATTEMPTS", "AWS_ACCESS_KEY_ID"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

/// Doctor names them before it listens, the one that keeps it from AWS again among what it found, and fails.
#[test]
fn doctor_names_unusable_sdk_settings() {
    let directory = tempfile::tempdir().unwrap();
    let (config, profile) = (directory.path().join("nearside.toml"), directory.path().join("profile"));
    let topic = "arn:aws:sns:eu-west-1:123456789012:changes";
    std::fs::write(&config, settings("sdk", &[("eu-west-1", "http://127.0.0.1:1", topic)], "")).unwrap();
    std::fs::write(&profile, "[default]\nuse_fips_endpoint = maybe\n").unwrap();
    let mut doctor = command(&["doctor", "--config", config.to_str().unwrap(), "--listen", "1s"]);
    doctor.env("AWS_CONFIG_FILE", &profile).env("AWS_MAX_ATTEMPTS", "abc").env("AWS_ACCESS_KEY_ID", "key\n");
    let output = doctor.output().unwrap();
    let (said, found) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{said}{found}");
    for (begins, names) in [
        ("the AWS SDK cannot use this, so AWS is not called: ", "AWS_ACCESS_KEY_ID"),
        ("the AWS SDK cannot use this, so AWS is not called: ", "profile:2:1"),
        ("the AWS SDK's setting is skipped: ", "AWS_MAX_ATTEMPTS"),
    ] {
        let named = said.lines().any(|line| line.starts_with(begins) && line.contains(names));
        assert!(named, "{names}: {said}");
    }
    assert!(
        found.contains("WRONG access") && found.contains("settings cannot be used") && found.contains("profile:2:1"),
        "{found}"
    );
    assert!(!said.contains("panicked"), "{said}");
}

/// Exit code and output of a service's check with these variables.
fn checked(file: &Path, service: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut check = command(&[service, "--check", "--config", file.to_str().unwrap()]);
    let output = check.envs(variables.iter().copied()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A region announces through AWS, whatever its engine is.
#[test]
fn service_check_lists_unusable_sdk_settings() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = (directory.path().join("service.toml"), directory.path().join("data"));
    let text = format!(
        "[engine]\nkind = \"embedded\"\ndirectory = \"{}\"\n[catalogue]\nlisten = \"127.0.0.1:0\"\n\
         admin = \"127.0.0.1:0\"\n[[catalogue.type]]\nname = \"tenant\"\n[[region]]\nname = \"eu-west-1\"\n\
         topic = \"arn:aws:sns:eu-west-1:123456789012:changes\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n",
        data.display()
    );
    std::fs::write(&file, text).unwrap();
    let ignored = ("AWS_MAX_ATTEMPTS", "abc");
    let (code, said) = checked(&file, "region", &[ignored, ("AWS_ACCESS_KEY_ID", "key\n")]);
    assert!(code == Some(2) && said.contains("AWS_ACCESS_KEY_ID") && said.contains("AWS_MAX_ATTEMPTS"), "{said}");
    let (code, said) = checked(&file, "region", &[ignored]);
    let skipped = "the AWS SDK's setting is skipped: ";
    assert!(code == Some(0) && said.contains(skipped) && said.contains("AWS_MAX_ATTEMPTS"), "{code:?}: {said}");
    let (code, said) = checked(&file, "catalogue", &[ignored]);
    assert!(code == Some(0) && !said.contains(skipped), "it calls nobody: {code:?}: {said}");
}
