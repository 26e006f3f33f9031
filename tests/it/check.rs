//! `nearside check` and the command line's exit codes, as a person or a pipeline meets them.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// Runs the program with an environment of our own.
fn nearside(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
    command.env_clear().envs(env.iter().copied()).args(args).output().expect("the program starts")
}

fn check(file: &Path, env: &[(&str, &str)]) -> Output {
    nearside(&["check", "--config", file.to_str().expect("a UTF-8 path")], env)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn example() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("nearside.example.toml")
}

#[test]
fn example_is_valid_and_states_origins() {
    let output = check(&example(), &[("NEARSIDE__CACHE__TTL", "2h")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let reported = text(&output.stderr);
    assert!(reported.starts_with("no errors: 3 regions, 1 route, 0 warnings\ncallers may have "), "{reported}");
    assert!(reported.contains("\nthe cache may hold "), "{reported}");
    let shown = text(&output.stdout);
    assert!(line_of(shown, "ttl = \"2h\" ").ends_with("# default: cache.ttl"));
    assert!(shown.lines().any(|line| line.starts_with("ttl = \"2h\"") && line.ends_with("# NEARSIDE__CACHE__TTL")));
    assert!(line_of(shown, "soft_ttl = \"30s\"").ends_with("# default"));
    assert!(line_of(shown, "url = ").contains("nearside.example.toml:"));
    assert!(!shown.contains('\u{1b}'), "a pipe gets no colours");
}

fn line_of<'a>(shown: &'a str, start: &str) -> &'a str {
    shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {shown}"))
}

#[test]
fn check_output_is_valid_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("again.toml");
    std::fs::write(&file, check(&example(), &[]).stdout).unwrap();
    assert_eq!(check(&file, &[]).status.code(), Some(0));
}

#[test]
fn check_lists_all_five_config_errors() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.toml");
    let bad = "[[service.region]]\nname = \"eu-west-1\"\nurl = \"https://user:hush@eu.example.com\"\n\n[cache]\n\
               ttl = \"1 fortnight\"\nmax_bites = \"1GiB\"\n\n[listen]\ntcp = \"0.0.0.0:8700\"\n";
    std::fs::write(&file, bad).unwrap();
    for command in ["check", "run"] {
        let output = nearside(&[command, "--config", file.to_str().unwrap()], &[("NEARSIDE__RACE__MODE", "al")]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let reported = text(&output.stderr);
        let lines: Vec<&str> = reported.lines().collect();
        assert_eq!(lines.len(), 6, "{reported}");
        for (line, place) in
            lines.iter().zip(["bad.toml:3:7: ", "bad.toml:6:7: ", "bad.toml:7:1: ", "bad.toml:10:7: "])
        {
            assert!(line.contains(place), "{line}");
        }
        assert!(
            lines[4].starts_with("NEARSIDE__RACE__MODE: ") && lines[4].contains("did you mean \"all\"?"),
            "{}",
            lines[4]
        );
        assert_eq!(lines[5], "5 errors");
        assert!(!reported.contains("hush"), "a password is not repeated");
    }
}

/// Both are whole: what operators need is in each, and nothing is an error.
#[test]
fn deployment_examples_allow_operator_commands() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let directory = tempfile::tempdir().unwrap();
    let (file, token) = (directory.path().join("nearside.toml"), directory.path().join("token"));
    std::fs::write(&token, "secret\n").unwrap();
    // The directory is the containers'.
    let (in_container, here) = ("/run/nearside/admin.sock", directory.path().join("admin.sock"));
    let pod = std::fs::read_to_string(deploy.join("kubernetes-pod.yaml")).unwrap();
    let (_, settings) = pod.split_once("nearside.toml: |\n").unwrap();
    let settings: String =
        settings.split("---").next().unwrap().lines().map(|line| line.trim().to_owned() + "\n").collect();
    assert!(settings.contains("\nunix = \"/run/nearside/admin.sock\"\n"), "{settings}");
    let known = "/run/secrets/nearside-admin/token";
    assert!(
        settings.contains(&format!("token_file = \"{known}\""))
            && pod.contains("mountPath: /run/secrets/nearside-admin")
    );
    let settings = settings.replace(in_container, here.to_str().unwrap());
    std::fs::write(&file, settings.replace(known, token.to_str().unwrap())).unwrap();
    let checked = check(&file, &[]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));

    let task = std::fs::read(deploy.join("ecs-task.json")).unwrap();
    let task: serde_json::Value = serde_json::from_slice(&task).unwrap();
    let containers = task["containerDefinitions"].as_array().unwrap();
    let sidecar = containers.iter().find(|container| container["name"] == "nearside").unwrap();
    let all = sidecar["environment"].as_array().unwrap().iter();
    let all = all.map(|one| (one["name"].as_str().unwrap(), one["value"].as_str().unwrap()));
    let env: Vec<_> = all
        .map(|(name, value)| match name {
            "NEARSIDE__ADMIN__TOKEN_FILE" => (name, token.to_str().unwrap()),
            "NEARSIDE__ADMIN__UNIX" => (name, here.to_str().unwrap()),
            _ => (name, value),
        })
        .collect();
    for name in ["NEARSIDE__ADMIN__TOKEN_FILE", "NEARSIDE__ADMIN__UNIX"] {
        assert!(env.iter().any(|(known, _)| *known == name), "{name}");
    }
    std::fs::write(&file, "").unwrap();
    let checked = check(&file, &env);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn missing_token_file_is_one_line() {
    let token = ("NEARSIDE__LISTEN__TOKEN_FILE", "/no/such/token");
    let output = nearside(&["check", "--config", example().to_str().unwrap()], &[token]);
    assert_eq!(output.status.code(), Some(2));
    let first = text(&output.stderr).lines().next().unwrap();
    assert!(first.contains("the token file /no/such/token cannot be read"), "{first}");
    let output = nearside(&["check", "--without-files", "--config", example().to_str().unwrap()], &[token]);
    assert_eq!(output.status.code(), Some(0), "a pipeline has no secrets");
}

#[test]
fn unusable_schema_is_reported_before_running() {
    let directory = tempfile::tempdir().unwrap();
    let (file, text_file) = (directory.path().join("bad.toml"), directory.path().join("context.proto"));
    std::fs::write(&text_file, "syntax = \"proto3\"; message Context {}").unwrap();
    let set = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload/editions.binpb");
    let regions = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n";
    let text_file = text_file.display();
    let [good, no_set, no_message] = [
        route_of("good", &format!("{set}#nearside.editions.Edition")),
        route_of("text", &format!("{text_file}#acme.Context")),
        route_of("none", &format!("{set}#nearside.editions.Editoin")),
    ];
    std::fs::write(&file, format!("{regions}{good}{no_set}{no_message}")).unwrap();
    for command in ["check", "run", "doctor"] {
        let path = ["--path", "/v1/good/x"];
        let args =
            [&[command, "--config", file.to_str().unwrap()][..], if command == "doctor" { &path } else { &[] }];
        let output = nearside(&args.concat(), &[]);
        let reported = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {reported}");
        let lines: Vec<&str> = reported.lines().collect();
        assert_eq!(lines.len(), 3, "{reported}");
        assert!(lines[0].contains("bad.toml:11:10: error: service.route.schema: "), "{reported}");
        assert!(lines[0].contains("is no descriptor set; make one with `protoc"), "{reported}");
        assert!(lines[1].contains("bad.toml:15:10: error: service.route.schema: "), "{reported}");
        assert!(lines[1].ends_with("did you mean \"nearside.editions.Edition\"?"), "{reported}");
    }
    let output = nearside(&["check", "--without-files", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(0), "a pipeline need not have them");
    std::fs::write(&file, format!("{regions}{}", route_of("endless", "/dev/zero#acme.Context"))).unwrap();
    let output = nearside(&["check", "--config", file.to_str().unwrap()], &[]);
    assert!(text(&output.stderr).contains("the schema /dev/zero cannot be read: it is no regular file"));
}

/// Route of records that are named after its path, with a schema.
fn route_of(path: &str, schema: &str) -> String {
    format!("[[service.route]]\npath = \"/v1/{path}/{{k}}\"\nrecords = [\"{path}:{{k}}\"]\nschema = \"{schema}\"\n")
}

#[test]
fn check_refuses_ineffective_announcement() {
    let directory = tempfile::tempdir().unwrap();
    let message = directory.path().join("message.json");
    let config = example();
    let path = "/v1/contexts/acme/limits";
    let file = message.to_str().unwrap();
    let args = ["check", "--config", config.to_str().unwrap(), "--announcement", file, "--path", path];
    for (key, code) in [("acme", 0), ("context:acme", 2)] {
        let text_of = format!(r#"{{"kind": "CHANGED", "recordType": "context", "key": "{key}", "version": "7"}}"#);
        std::fs::write(&message, text_of).unwrap();
        let output = nearside(&args, &[]);
        let reported = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{reported}");
        assert_eq!(code == 2, reported.contains("recordType `context` and key `acme`"), "{reported}");
    }
}

#[test]
fn explain_states_usage_and_reply_sharing() {
    let path = "/v1/contexts/acme/limits";
    let bare = nearside(&["explain", path], &[]);
    let reported = text(&bare.stderr);
    assert_eq!(bare.status.code(), Some(2), "{reported}");
    assert!(reported.contains("give --config FILE") && reported.contains("--socket PATH"), "{reported}");
    let config = example();
    let output = nearside(&["explain", path, "--config", config.to_str().unwrap(), "--timeout", "2s"], &[]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(shown.contains("where nothing in `kept apart` differs"), "{shown}");
    assert!(shown.contains("each combination has its own reply"), "{shown}");
}

/// A file with the schema of `acme.Context`.
fn schema(directory: &Path) -> std::path::PathBuf {
    let text_of = "syntax = \"proto3\"; package acme; message Context { int32 seat_count = 1; Plan plan = 2; }\n\
                   message Plan { string name = 1; }";
    std::fs::write(directory.join("context.proto"), text_of).unwrap();
    let set = protox::compile(["context.proto"], [directory]).unwrap();
    let file = directory.join("c.binpb");
    std::fs::write(&file, prost::Message::encode_to_vec(&set)).unwrap();
    file
}

/// Output of explain for a path by these settings.
fn explained(file: &Path, settings: &str, path: &str, accept: &str) -> String {
    std::fs::write(file, settings).unwrap();
    let accept = format!("Accept: {accept}");
    let args = ["explain", path, "--config", file.to_str().unwrap(), "--header", &accept, "--timeout", "1s"];
    let output = nearside(&args, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// Settings whose route has a schema, a batch path and a candidate.
fn migrating(schema: &Path, mode: &str) -> String {
    format!(
        "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1/base\"\n[[service.route]]\n\
         path = \"/v1/contexts/{{key}}/{{view}}\"\nrecords = [\"context:{{key}}\"]\nfields = \"fields\"\n\
         schema = \"{}#acme.Context\"\nbatch = \"/v1/batch/{{view}}\"\nupstream_batch = \"/v1/many/{{view}}\"\n\
         candidate = {{ path = \"/v2/{{view}}/{{key}}\", form = \"protobuf\", {mode} }}\n",
        schema.display()
    )
}

#[test]
fn explain_states_forms_and_answering_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, file) = (schema(directory.path()), directory.path().join("n.toml"));
    let old = migrating(&schema, "mode = \"old\"");
    let (path, protobuf) = ("/v1/contexts/acme/full?x=1&fields=plan.name,plan,seat_count", "application/x-protobuf");
    let current = explained(&file, &migrating(&schema, "mode = \"check\", check_share = 0.5"), path, "*/*");
    for line in [
        "asked at  http://127.0.0.1:1/base/v1/contexts/acme/full?x=1",
        "form      regions are asked for application/json",
        "          this caller gets application/json",
        "fields    regions never see the parameter `fields`; this caller gets plan,seatCount of the JSON",
        "batch     callers POST many keys to /v1/batch/{view}; regions get the rest at /v1/many/{view}",
        "mode      check: the current upstream answers for this record, and some of its answers are compared with the \
         candidate's",
    ] {
        assert!(current.lines().any(|reported| reported == line), "{line}: {current}");
    }
    assert!(current.contains("kept apart  by path and query without its fields, authorization"), "{current}");
    assert!(current.contains("coding    regions are asked for identity, whatever the caller accepts"), "{current}");
    let whole = explained(&file, &old, "/v1/contexts/acme/full", "*/*");
    assert!(whole.contains("query without its fields, Accept-Encoding") && !whole.contains("coding "), "{whole}");
    let candidate = explained(&file, &migrating(&schema, "mode = \"new\", new_share = 1"), path, protobuf);
    for line in [
        "asked at  http://127.0.0.1:1/base/v2/full/acme?x=1",
        "form      regions are asked for application/x-protobuf, application/json;q=0.5",
        "          this caller gets application/x-protobuf",
        "mode      new: the candidate answers for this record",
    ] {
        assert!(candidate.lines().any(|reported| reported == line), "{line}: {candidate}");
    }
    let derived = explained(&file, &old, path, protobuf);
    assert!(derived.contains("this caller gets application/x-protobuf, derived once for each version"), "{derived}");
    let refused = explained(&file, &old, "/v1/contexts/acme/full?fields=nothing", "*/*");
    assert!(refused.contains("REFUSED   this request: the path \"nothing\" leads to no field"), "{refused}");
    assert!(refused.contains("asked at  no region: the sidecar itself refuses the request"), "{refused}");
    assert!(!refused.contains("nothing\n") && !refused.contains("goes along"), "{refused}");
    assert!(!refused.contains("http://127.0.0.1:1/base/v1"), "no region sees it: {refused}");
    let batch = explained(&file, &old, "/v1/batch/full", "*/*");
    assert!(batch.contains("each is answered as a GET of /v1/contexts/{key}/{view} would be"), "{batch}");
    assert!(batch.contains("a key fills {key}") && !batch.contains("no route names it"), "{batch}");
}

/// Output of explain for a route over https with these lines.
fn explained_compression(file: &Path, lines: &str) -> String {
    let settings = format!(
        "[[service.region]]\nname = \"a\"\nurl = \"https://a.example\"\n[[service.route]]\n\
         path = \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\n{lines}\n"
    );
    explained(file, &settings, "/v1/contexts/acme", "*/*")
}

#[test]
fn explain_states_compression_without_accept_encoding() {
    let directory = tempfile::tempdir().unwrap();
    let (file, dictionary) = (directory.path().join("n.toml"), directory.path().join("c.dict"));
    std::fs::write(&dictionary, "gold").unwrap();
    let hash = "24d7f03d8dc3c3666969e6fa5bb1fac4736d3f1353c28307ed51b320f9dc42d3";
    let plain = explained_compression(&file, "");
    assert!(plain.contains("kept apart  by path and query, Accept, Accept-Encoding, authorization"), "{plain}");
    assert!(plain.contains("goes along  accept, accept-encoding\n") && !plain.contains("coding  "), "{plain}");
    let named = format!("dictionary = {{ file = \"{}\", hash = \"{hash}\" }}", dictionary.display());
    let offered = format!("          they are offered the dictionary {} (sha256 {hash})", dictionary.display());
    let zstd = format!("compression = \"zstd\"\n{named}");
    let elsewhere = format!("{zstd}\ncandidate = {{ url = \"https://b.example\", mode = \"new\", new_share = 1 }}");
    for (lines, asked_for, is_offered) in [
        ("compression = \"gzip\"", "gzip", false),
        ("compression = \"zstd\"", "zstd, gzip;q=0.5", false),
        (zstd.as_str(), "dcz, zstd;q=0.9, gzip;q=0.5", true),
        (elsewhere.as_str(), "zstd, gzip;q=0.5", false),
    ] {
        let reported = explained_compression(&file, lines);
        let coding = format!(
            "coding    regions are asked for {asked_for}, whatever the caller accepts; what comes is stored plain"
        );
        assert!(reported.lines().any(|line| line == coding), "{reported}");
        assert_eq!(reported.lines().any(|line| line == offered), is_offered, "{reported}");
        assert!(!reported.to_lowercase().contains("accept-encoding"), "{reported}");
        assert!(
            reported.contains("goes along  accept\n")
                && reported.contains("by path and query, Accept, authorization"),
            "{reported}"
        );
    }
    std::fs::write(&dictionary, "iron").unwrap();
    assert!(explained_compression(&file, &zstd).contains("UNUSABLE  service.route.dictionary: "));
}

/// Output of explain for a request with these headers and a route with these lines.
fn explained_headers(file: &Path, route: &str, headers: &[&str]) -> String {
    let settings = format!(
        "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n[[service.route]]\npath = \
         \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\nignore = [\"x-forwarded-*\"]\n{route}\n"
    );
    std::fs::write(file, settings).unwrap();
    let path = ["explain", "/v1/contexts/acme", "--config", file.to_str().unwrap(), "--timeout", "1s"];
    let headers = headers.iter().flat_map(|header| ["--header", header]);
    let output = nearside(&path.into_iter().chain(headers).collect::<Vec<_>>(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn explain_states_each_headers_fate() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("n.toml");
    let own = "identity = \"sidecar\"\ncredentials = { file = \"/run/own\" }";
    let sent = ["X-Tenant: acme", "Origin: https://a", "X-Forwarded-For: 10.0.0.1", "b3: 0", "Cookie: a=b"];
    let passed =
        "PASSED ON   for x-tenant, origin: a request with it goes to one region whole and nothing is stored, until";
    for (route, lines) in [
        ("", &[passed, "ignored     x-forwarded-for: no region", "stays here  b3: known to change no answer"][..]),
        (
            "forward = [\"x-tenant\"]",
            &["PASSED ON   for origin: a request", "goes along  x-tenant, cookie, accept-encoding"],
        ),
        (
            own,
            &[
                passed,
                "ignored     x-forwarded-for: no region",
                "stays here  cookie: the sidecar sends its own credentials",
            ],
        ),
    ] {
        let reported = explained_headers(&file, route, &sent);
        for line in lines {
            assert!(reported.lines().any(|reported| reported.starts_with(line)), "{line}: {reported}");
        }
        assert!(!reported.contains("10.0.0.1") && !reported.contains("https://a"), "no value is shown: {reported}");
    }
    for (route, header, line) in [
        ("", "X-Original-URL: /b", "PASSED ON   for x-original-url: it may lead elsewhere"),
        ("", "X-HTTP-Method-Override: GET", "PASSED ON   for x-http-method-override: it may lead elsewhere"),
        (
            "",
            "X-HTTP-Method-Override: PUT",
            "A WRITE     by x-http-method-override: a request with it goes to one region, once",
        ),
        (own, "X-HTTP-Method-Override: PUT", "WITHHELD    x-http-method-override: goes to no region"),
        (own, "Impersonate-User: root", "WITHHELD    impersonate-user: goes to no region"),
        ("", "Range: bytes=0-1", "PASSED ON   for range: one region answers, and nothing is stored"),
        ("", "If-None-Match: \"1\"", "stays here  if-none-match: known to change no answer"),
        (
            "fields = \"fields\"\ncompression = \"gzip\"",
            "Range: bytes=0-1",
            "PASSED ON   for range: one region answers",
        ),
    ] {
        let reported = explained_headers(&file, route, &[header]);
        assert!(reported.lines().any(|reported| reported.starts_with(line)), "{line}: {reported}");
        let fates = ["PASSED ON", "A WRITE", "WITHHELD", "ignored", "stays here"];
        let said = reported.lines().filter(|reported| fates.iter().any(|fate| reported.starts_with(fate)));
        assert_eq!(said.count(), 1, "{reported}");
    }
}

/// Output of explain for a route with these lines and this candidate.
fn explained_candidate(file: &Path, route: &str, candidate: &str) -> String {
    let settings = format!(
        "[[service.region]]\nname = \"eu\"\nurl = \"http://127.0.0.1:1/base\"\n[[service.region]]\nname = \"us\"\n\
         url = \"http://127.0.0.1:2\"\n[[service.route]]\npath = \"/v1/contexts/{{key}}\"\n\
         records = [\"context:{{key}}\"]\n{route}\ncandidate = {{ {candidate} }}\n"
    );
    explained(file, &settings, "/v1/contexts/acme?x=1&fields=plan", "application/json")
}

#[test]
fn explain_states_candidate_and_its_request() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, file) = (schema(directory.path()), directory.path().join("n.toml"));
    let shaped = format!("fields = \"fields\"\nschema = \"{}#acme.Context\"", schema.display());
    for mode in ["mode = \"old\"", "mode = \"check\"", "mode = \"new\", new_share = 1"] {
        let reported =
            explained_candidate(&file, &shaped, &format!("path = \"/v2/{{key}}\", form = \"protobuf\", {mode}"));
        let lines = "candidate http://127.0.0.1:1/base/v2/acme?x=1\n          http://127.0.0.1:2/v2/acme?x=1\n          \
                     asked for application/x-protobuf, application/json;q=0.5, with the callers' own headers; its versions \
                     are those that announcements state (versions = \"same\")\n";
        assert!(reported.contains(lines), "{mode}: {reported}");
    }
    let kept = "identity = \"sidecar\"\ncredentials = { file = \"/run/current\" }";
    let own = explained_candidate(&file, kept, "path = \"/v2/{key}\", mode = \"check\"");
    assert!(own.contains("asked for what the caller accepts, with /run/current in authorization; "), "{own}");
    let other = "url = \"http://{region}.candidate.example/api\", versions = \"own\", mode = \"check\"";
    let reported = explained_candidate(&file, kept, &format!("{other}, credentials_file = \"/run/candidate\""));
    let lines = "candidate http://eu.candidate.example/api/v1/contexts/acme?x=1&fields=plan\n          \
                 http://us.candidate.example/api/v1/contexts/acme?x=1&fields=plan\n          asked for what the caller accepts, \
                 with /run/candidate in authorization; its versions count as if there were none (versions = \"own\")\n";
    assert!(reported.contains(lines), "{reported}");
    let reported = explained_candidate(&file, kept, other);
    assert!(reported.contains("with no credentials, since it names no credentials_file; "), "{reported}");
}

/// Output of a doctor that finds a fault with the path.
fn doctor(file: &Path, path: &str) -> String {
    let args = ["doctor", "--config", file.to_str().unwrap(), "--path", path, "--listen", "2s"];
    let output = nearside(&args, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn doctor_reports_refused_fields_and_batch() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, file) = (schema(directory.path()), directory.path().join("n.toml"));
    let settings = format!(
        "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n[[service.route]]\n\
         path = \"/v1/contexts/{{key}}/{{view}}\"\nrecords = [\"context:{{key}}\"]\nfields = \"fields\"\n\
         schema = \"{}#acme.Context\"\nbatch = \"/v1/batch/{{view}}\"\n[announcements]\ntransport = \"off\"\n",
        schema.display()
    );
    std::fs::write(&file, settings).unwrap();
    let refused = doctor(&file, "/v1/contexts/acme/full?fields=nope");
    assert!(
        refused.contains("  WRONG shape: the sidecar itself answers 400 and asks no region: the path \"nope\""),
        "{refused}"
    );
    let batch = doctor(&file, "/v1/batch/full");
    assert!(batch.contains("  WRONG route-unmatched: it is a batch path: "), "{batch}");
    assert!(batch.contains("        -> give a path of one key instead: /v1/contexts/{key}/full\n"), "{batch}");
    for reported in [refused, batch] {
        assert!(reported.contains("0 well, 1 wrong, "), "no region was asked: {reported}");
    }
}

#[test]
fn bad_file_or_arguments_exits_two() {
    for args in [&["check", "--config", "/no/such/file.toml"][..], &["chekc"], &["ctl", "purge"], &[]] {
        assert_eq!(nearside(args, &[]).status.code(), Some(2), "{args:?}");
    }
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        assert_eq!(nearside(args, &[]).status.code(), Some(0), "{args:?}");
    }
}
