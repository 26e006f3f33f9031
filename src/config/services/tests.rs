//! The services' file as its readers meet it: errors, variables, roles, and the example.

use std::fmt::Write as _;

use super::*;
use crate::config::effective;
use crate::config::error::Place;

const EXAMPLE: &str = include_str!("../../../service.example.toml");

const SMALL: &str = "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n";

fn load_text(
    role: ServiceRole,
    text: &str,
    env: &[(&str, &str)],
) -> Result<(ServicesConfig, Origins), Vec<ConfigError>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("service.toml");
    std::fs::write(&file, text).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    load(role, Some(&file), env)
}

/// The errors, one line each, without the directory of the file.
fn errors(role: ServiceRole, text: &str, env: &[(&str, &str)]) -> Vec<String> {
    let errors = load_text(role, text, env).expect_err("errors");
    let found = errors.iter().map(ToString::to_string);
    found.map(|found| found.split_once("service.toml").map_or(found.clone(), |(_, rest)| rest.to_owned())).collect()
}

#[test]
fn all_service_errors_are_reported_together() {
    let directory = tempfile::tempdir().unwrap();
    let [schema, views] = ["tenant.json", "views.toml"].map(|name| directory.path().join(name));
    std::fs::write(&schema, "{ no json }").unwrap();
    let text = format!(
        "[engine]\nkind = \"embeded\"\n\
         [catalogue]\nlisten = \"0.0.0.0:8740\"\nmax_conections = 5\n\
         [[catalogue.type]]\nname = \"tenant\"\nschema = \"{}\"\n\
         [[catalogue.type]]\nname = \"Shard\"\n\
         [views]\nfile = \"{}\"\nrate = 0\n\
         [[regions]]\nname = \"eu-west-1\"\n",
        schema.display(),
        views.display(),
    );
    let found = errors(ServiceRole::Views, &text, &[("NEARSIDE__VIEWS__SWEEP", "6")]);
    let wanted = [
        (":2:8: engine.kind: ", "did you mean \"embedded\"?"),
        (":4:10: catalogue.listen: other machines could reach", "or 127.0.0.1:8740"),
        (":5:1: catalogue: no setting is called `max_conections`", "did you mean max_connections?"),
        (":8:10: catalogue.type.schema: ", "is not JSON: key must be a string at line 1 column 3"),
        (":10:8: catalogue.type.name: `Shard` is not a name", "write a lower-case letter"),
        (":12:8: views.file: ", "cannot be read: No such file"),
        (":13:8: views.rate: 0 is out of range", "from 1 to 100000"),
        (":14:3: no section is called `regions`", "did you mean [[region]]?"),
        ("NEARSIDE__VIEWS__SWEEP: views.sweep: `6` has no unit", "write 6s"),
    ];
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (found, (begins, holds)) in found.iter().zip(wanted) {
        assert!(found.starts_with(begins) && found.contains(holds), "{found}\nwants {begins} .. {holds}");
    }
}

#[test]
fn foreign_section_names_its_program() {
    let found = errors(ServiceRole::Catalogue, &format!("{SMALL}[listen]\n"), &[]);
    assert!(found[0].ends_with("no section is called `listen`; it belongs in the file of nearside run"), "{found:?}");
    let found =
        crate::config::read::from_toml(SMALL).unwrap_err().iter().map(ToString::to_string).collect::<String>();
    assert!(found.contains("`engine`; it belongs in the file of nearside catalogue, views and region"), "{found}");
}

#[test]
fn engine_reports_missing_and_ineffective_settings() {
    let role = ServiceRole::Catalogue;
    let found = errors(role, &with_type_and_region("[engine]\nkind = \"embedded\""), &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(":2:8: engine.directory: missing") && found[0].contains("in [engine]"), "{found:?}");
    let found = errors(role, &with_type_and_region("[engine]\nkind = \"aws\""), &[]);
    let settings: Vec<_> = found.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(settings, ["engine.region", "region.name", "region.topic"], "{found:?}");
    let found = errors(role, &with_type_and_region("engine.directory = \"/tmp\""), &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("engine.kind: missing; write `kind = ..`: `embedded`, `memory`, `aws`"), "{found:?}");
    let (_, origins) =
        load_text(role, &with_type_and_region("[engine]\nkind = \"memory\"\ndirectory = \"/tmp\""), &[]).unwrap();
    let warned: Vec<_> = origins.warnings.iter().map(|warning| warning.text.as_str()).collect();
    assert_eq!(warned, ["engine.directory has no effect with kind = \"memory\""]);
}

fn with_type_and_region(text: &str) -> String {
    format!("{text}\n[[catalogue.type]]\nname = \"tenant\"\n[[region]]\nname = \"eu\"\n")
}

#[test]
fn each_role_has_own_requirements() {
    let engine = "[engine]\nkind = \"memory\"\n";
    for (role, setting) in [
        (ServiceRole::Catalogue, "catalogue.type: no type of records"),
        (ServiceRole::Views, "views.file: missing, and `nearside views` needs it"),
        (ServiceRole::Region, "region: no region"),
    ] {
        let found = errors(role, engine, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(setting), "{found:?}");
    }
    assert!(load_text(ServiceRole::Catalogue, SMALL, &[]).is_ok(), "neither views nor regions");
}

#[test]
fn names_and_ports_are_unique() {
    let text = "[engine]\nkind = \"memory\"\n[catalogue]\nadmin = \"127.0.0.1:8740\"\n\
                [[catalogue.type]]\nname = \"tenant\"\n[[catalogue.type]]\nname = \"tenant\"\n\
                [[region]]\nname = \"eu-1\"\n[[region]]\nname = \"eu_1\"\nadmin = \"127.0.0.1:8744\"\n";
    let found = errors(ServiceRole::Catalogue, text, &[]);
    let found: Vec<_> = found.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(
        found,
        [
            "catalogue.admin: port 8740 is catalogue.listen's already; write another port",
            "catalogue.type.name: a second type called `tenant`; give each type a name of its own",
            "region.name: `eu_1` gives the same environment variable as `eu-1`; give each region a name of its own",
            "region.admin: port 8744 is region.listen's already; write another port",
        ]
    );
}

#[test]
fn access_needs_issuers_and_two_audiences() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, "[").unwrap();
    let of = |lines: &str| {
        let found = errors(ServiceRole::Catalogue, &format!("{SMALL}[access]\nmode = \"enforce\"\n{lines}"), &[]);
        found.iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>().join("\n")
    };
    let found = of("");
    for wanted in ["no issuer whose tokens are believed", "catalogue_audience: missing", "region_audience: missing"] {
        assert!(found.contains(wanted), "{found}");
    }
    let issuer = format!("[[access.issuer]]\niss = \"https://i.example\"\nkeys = \"{}\"\n", keys.display());
    let admin = "[[access.admin]]\niss = \"https://other.example\"\nsub = \"a\"\n";
    let found = of(&format!("catalogue_audience = \"a\"\nregion_audience = \"a\"\n{issuer}{issuer}{admin}"));
    for wanted in [
        "access.region_audience: the catalogue's audience",
        "access.issuer.iss: a second issuer of this iss",
        "access.admin.iss: no [[access.issuer]] has this iss",
        "is not JSON: ",
    ] {
        assert!(found.contains(wanted), "{wanted}\n{found}");
    }
}

/// A directory with `one.pem` and `one.key`, which belong together, and `two.key`.
fn certificates() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.path().join(format!("{name}.pem")), certified.cert.pem()).unwrap();
        std::fs::write(directory.path().join(format!("{name}.key")), certified.signing_key.serialize_pem()).unwrap();
    }
    directory
}

#[test]
fn reachable_ports_need_tls_or_proxy() {
    let directory = certificates();
    let tls = format!("tls = {{ certificate = \"{0}/one.pem\", key = \"{0}/one.key\" }}", directory.path().display());
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, "{}").unwrap();
    let refused = |own: &str, mode: &str, operate: &str| {
        let text = format!(
            "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"0.0.0.0:1\"\nadmin = \"0.0.0.0:2\"\n{own}\n\
             [[catalogue.type]]\nname = \"a\"\n[views]\nadmin = \"[::]:3\"\n{own}\n\
             [[region]]\nname = \"eu\"\nlisten = \"[::]:4\"\nadmin = \"192.0.2.1:5\"\n{own}\n[access]\nmode = \"{mode}\"\n\
             catalogue_audience = \"c\"\nregion_audience = \"r\"\noperate_audience = \"{operate}\"\n\
             [[access.issuer]]\niss = \"https://i.example\"\nkeys = \"{}\"\n",
            keys.display()
        );
        load_text(ServiceRole::Region, &text, &[]).err().unwrap_or_default()
    };
    for (own, mode, operate, wanted) in [
        ("", "off", "", 5),
        ("", "enforce", "o", 5),
        (&tls, "off", "o", 5),
        (&tls, "observe", "o", 5),
        (&tls, "enforce", "", 1),
        (&tls, "enforce", "o", 0),
        ("behind_proxy = true", "off", "", 0),
        ("behind_proxy = true", "observe", "", 1),
        ("behind_proxy = true", "enforce", "o", 0),
    ] {
        assert_eq!(refused(own, mode, operate).len(), wanted, "{own} {mode} {operate}");
    }
    let found = refused("", "off", "").iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for setting in ["catalogue.listen", "catalogue.admin", "views.admin", "region.listen", "region.admin"] {
        assert!(found.contains(&format!("{setting}: other machines could reach")), "{found}");
    }
    assert!(found.contains("views.tls and access.mode = \"enforce\", or views.behind_proxy = true"), "{found}");
    assert!(refused(&tls, "enforce", "")[0].to_string().contains("operate_audience: missing"));
}

#[test]
fn reached_views_service_needs_an_issuer() {
    let text = "[engine]\nkind = \"memory\"\n[views]\nfile = \"views.toml\"\nadmin = \"0.0.0.0:3\"\nbehind_proxy = true\n\
                [access]\nmode = \"enforce\"\ncatalogue_audience = \"c\"\nregion_audience = \"r\"\noperate_audience = \"o\"\n";
    let found = errors(ServiceRole::Views, text, &[]).join("\n");
    assert!(found.contains("access.issuer: no issuer whose tokens are believed"), "{found}");
    let on_loopback = text.replace("0.0.0.0", "127.0.0.1");
    let found = errors(ServiceRole::Views, &on_loopback, &[]).join("\n");
    assert!(found.contains("access.issuer"), "a proxy hands operators' requests on: {found}");
    let found = errors(ServiceRole::Views, &on_loopback.replace("behind_proxy = true\n", ""), &[]).join("\n");
    assert!(!found.contains("access.issuer"), "{found}");
}

/// The catalogue's file with these admins; `tls` is a line of `[catalogue]`.
fn with_admins(tls: &str, admins: &str) -> Result<Vec<String>, String> {
    let text = format!(
        "[engine]\nkind = \"memory\"\n[catalogue]\n{tls}\n[[catalogue.type]]\nname = \"a\"\n[access]\nmode = \"observe\"\n\
         catalogue_audience = \"c\"\nregion_audience = \"r\"\n[[access.issuer]]\niss = \"https://i.example\"\n\
         keys = \"https://i.example/k\"\n{admins}"
    );
    let loaded = load_text(ServiceRole::Catalogue, &text, &[]);
    match loaded {
        Ok((_, origins)) => Ok(origins.warnings.into_iter().map(|warning| warning.text).collect()),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

#[test]
fn admins_are_one_principal_each() {
    let directory = certificates();
    let tls = format!(
        "tls = {{ certificate = \"{}\", key = \"{}\", client_ca = \"{}\" }}",
        path(&directory, "one.pem"),
        path(&directory, "one.key"),
        path(&directory, "two.pem")
    );
    let token = "[[access.admin]]\niss = \"https://i.example\"\nsub = \"a\"\n";
    let spiffe = "[[access.admin]]\nspiffe = \"spiffe://corp/platform\"\n";
    let dns = "[[access.admin]]\ndns = \"ops.example\"\n";
    let warnings = with_admins(&tls, &token.repeat(2)).unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("all admins depend on the issuer"), "{warnings:?}");
    for beside in [spiffe, dns] {
        assert_eq!(with_admins(&tls, &(token.to_owned() + beside)), Ok(Vec::new()), "{beside}");
        let refused = with_admins("", beside).unwrap_err();
        assert!(refused.contains("name the CA of its certificate in catalogue.tls.client_ca"), "{refused}");
    }
    for (wrong, said) in [
        (spiffe.replace("platform", "*"), "access.admin.spiffe: it is no SPIFFE ID"),
        (dns.replace("ops", "*"), "access.admin.dns: it is no DNS name"),
        (token.replace("sub = \"a\"\n", ""), "write iss and sub, or spiffe, or dns"),
        (spiffe.to_owned() + "dns = \"ops.example\"\n", "write iss and sub, or spiffe, or dns"),
        (token.to_owned() + "dns = \"ops.example\"\n", "write iss and sub, or spiffe, or dns"),
        ("[[access.admin]]\n".to_owned(), "write iss and sub, or spiffe, or dns"),
    ] {
        let refused = with_admins("", &wrong).unwrap_err();
        assert!(refused.contains(said) && refused.lines().count() == 1, "{wrong}: {refused}");
    }
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

#[test]
fn certificate_and_key_belong_together() {
    let directory = certificates();
    let with = |certificate: &str, key: &str| {
        let services = ["CATALOGUE", "VIEWS", "REGION__EU"];
        let named = |service: &str| {
            [("CERTIFICATE", certificate), ("KEY", key)]
                .map(|(setting, file)| (format!("NEARSIDE__{service}__TLS__{setting}"), path(&directory, file)))
        };
        let env = services.into_iter().flat_map(named).filter(|(_, file)| !file.ends_with('/'));
        let env: Vec<_> = env.collect();
        let env: Vec<_> = env.iter().map(|(name, file)| (name.as_str(), file.as_str())).collect();
        load_text(ServiceRole::Region, &format!("{SMALL}[[region]]\nname = \"eu\"\n"), &env)
    };
    let (config, _) = with("one.pem", "one.key").unwrap();
    for server in [&config.catalogue.tls.server, &config.views.tls.server, &config.regions[0].tls.server] {
        assert_eq!(server.as_ref().unwrap().certificate, directory.path().join("one.pem"));
    }
    for (certificate, key, wanted) in [
        ("one.pem", "two.key", "is not the key of the certificate in"),
        ("one.key", "one.key", "holds no certificate"),
        ("one.pem", "none.key", "cannot be read"),
        ("one.pem", "", "no key beside it"),
        ("", "one.key", "no certificate beside it"),
    ] {
        let found: Vec<_> = with(certificate, key).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for (found, section) in found.iter().zip(["catalogue.tls.", "region.tls.", "views.tls."]) {
            assert!(found.contains(section) && found.contains(wanted), "{found}");
        }
    }
}

#[test]
fn cas_of_callers_need_tls() {
    let directory = certificates();
    let with = |tls: &[(&str, &str)]| {
        let tls: Vec<_> = tls.iter().map(|(key, file)| format!("{key} = \"{}\"", path(&directory, file))).collect();
        let text = SMALL.replace("[[cat", &format!("[catalogue]\ntls = {{ {} }}\n[[cat", tls.join(", ")));
        load_text(ServiceRole::Catalogue, &text, &[])
    };
    let pair = [("certificate", "one.pem"), ("key", "one.key")];
    let (config, origins) = with(&[&pair[..], &[("client_ca", "two.pem")]].concat()).unwrap();
    assert_eq!(config.catalogue.tls.server.unwrap().client_ca, Some(directory.path().join("two.pem")));
    assert!(origins.warnings[0].text.contains("has no effect with access.mode"), "{:?}", origins.warnings);
    let wrong = with(&[("client_ca", "two.pem")]).unwrap_err();
    assert!(wrong.len() == 1 && wrong[0].to_string().contains("catalogue.tls.client_ca: no certificate beside it"));
    let wrong = with(&[&pair[..], &[("client_ca", "two.key")]].concat()).unwrap_err();
    assert!(wrong.len() == 1 && wrong[0].to_string().contains("holds no certificate"), "{wrong:?}");
}

#[test]
fn key_sources_and_operators_are_checked() {
    let common = "catalogue_audience = \"a\"\nregion_audience = \"b\"\n";
    let of = |lines: &str| {
        load_text(ServiceRole::Catalogue, &format!("{SMALL}[access]\nmode = \"enforce\"\n{lines}"), &[])
    };
    let issuer = |iss: &str, keys: &str| format!("{common}[[access.issuer]]\niss = \"{iss}\"\nkeys = \"{keys}\"\n");
    for (iss, keys) in [("https://i.example", "discovery"), ("i", "https://i.example/jwks")] {
        let (config, _) = of(&issuer(iss, keys)).unwrap();
        assert!(!matches!(config.access.issuers[0].keys, KeysSource::File(_)), "{keys}");
    }
    for (text, wanted) in [
        (issuer("i", "discovery"), "keys: discovery asks at the issuer's own URL"),
        (issuer("https://i.example?x", "discovery"), "keys: discovery asks at the issuer's own URL"),
        (issuer("https://i.example", "http://i.example/jwks"), "keys: keys at a URL that is not https"),
        (issuer("https://i.example", "https://a:b@i.example/jwks"), "keys: a URL with a user name or password"),
        (format!("{}ca_file = \"none.pem\"\n", issuer("https://i.example", "discovery")), "ca_file: none.pem"),
        (issuer("", "https://i.example/jwks"), "access.issuer.iss: empty; write the iss"),
        (format!("{}subject = \"\"\n", issuer("i", "https://i.example/j")), "issuer.subject: `` is no claim"),
        (format!("{}subject = \"aud\"\n", issuer("i", "https://i.example/j")), "issuer.subject: `aud` is no claim"),
        (
            format!("operate_audience = \"b\"\n{}", issuer("https://i.example", "discovery")),
            "an audience that callers'",
        ),
        (
            format!("deny_file = \"none\"\n{}", issuer("https://i.example", "discovery")),
            "deny_file: none cannot be read",
        ),
    ] {
        let errors = of(&text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(errors.contains(wanted), "{wanted}\n{errors}");
    }
    let reached = format!(
        "[catalogue]\nadmin = \"0.0.0.0:8741\"\n[access]\nmode = \"enforce\"\n{}",
        issuer("i", "https://i.example/j")
    );
    let errors = errors(ServiceRole::Views, &reached, &[]).join("\n");
    assert!(errors.contains("operate_audience: missing"), "{errors}");
}

#[test]
fn variables_alone_configure_process() {
    let env = [
        ("NEARSIDE__ENGINE__KIND", "aws"),
        ("NEARSIDE__ENGINE__REGION", "eu-west-1"),
        ("NEARSIDE__CATALOGUE__TYPE__TENANT__NAME", "tenant"),
        ("NEARSIDE__REGION__US_EAST_1__TOPIC", "arn:aws:sns:us-east-1:123456789012:changes"),
        ("NEARSIDE__REGION__US_EAST_1__VIEWS", "limits,profile"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (config, origins) = load(ServiceRole::Region, None, env.into_iter()).unwrap();
    let EngineConfig::Aws { endpoint_url: Some(url), prefix, .. } = &config.engine else { panic!("{config:?}") };
    assert_eq!((url.port(), prefix.as_str()), (Some(4566), "nearside"));
    assert_eq!(config.catalogue.types, [RecordTypeConfig { name: "tenant".to_owned(), schema: None }]);
    let region = config.region(None).unwrap();
    assert_eq!((region.name.as_str(), region.views.len()), ("us-east-1", 2));
    let endpoint = origins.settings.iter().find(|known| known.setting.path() == "engine.endpoint_url").unwrap();
    assert_eq!(endpoint.place, Place::Variable("AWS_ENDPOINT_URL".into()));
    let found =
        errors(ServiceRole::Catalogue, SMALL, &[("NEARSIDE__VIEWS__RATES", "5"), ("NEARSIDE__CACHE__TTL", "1h")]);
    assert!(found[0].contains("sets nothing"), "a sidecar's setting is none of the services': {found:?}");
    assert!(found[1].contains("did you mean NEARSIDE__VIEWS__RATE?"), "{found:?}");
}

#[test]
fn only_region_may_stay_unnamed() {
    let two = format!("{SMALL}[[region]]\nname = \"eu-west-1\"\n[[region]]\nname = \"us-east-1\"\n");
    let (config, _) = load_text(ServiceRole::Region, &two, &[]).unwrap();
    assert_eq!(config.region(Some("us-east-1")).unwrap().name, "us-east-1");
    let wrong = config.region(None).unwrap_err();
    assert!(
        wrong.what.contains("2 regions") && wrong.suggestion.contains("--name: eu-west-1, us-east-1"),
        "{wrong:?}"
    );
    assert_eq!(config.region(Some("eu-west-2")).unwrap_err().suggestion, "did you mean eu-west-1?");
}

#[test]
fn service_example_lists_settings_and_defaults() {
    for setting in SERVICES.settings() {
        // Tables that may be left out are comments.
        let written = format!("{} = ", setting.key);
        let shown = EXAMPLE.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&written));
        assert!(shown, "{} is not in the example", setting.path());
    }
    // With every default written out.
    let mut written = String::new();
    for line in EXAMPLE.lines() {
        let setting = line.strip_prefix('#').filter(|rest| rest.contains(" = ") && !rest.starts_with(' '));
        let line = setting.unwrap_or(line);
        writeln!(written, "{line}").unwrap();
    }
    let (config, origins) = load_text(ServiceRole::Catalogue, EXAMPLE, &[]).unwrap();
    assert_eq!(origins.warnings, vec![]);
    let mut printed = Vec::new();
    effective::print(&mut printed, &origins, effective::TomlStyles::default()).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    for same in [written.as_str(), &printed] {
        let (again, _) = load_text(ServiceRole::Catalogue, same, &[]).unwrap();
        assert_eq!(format!("{again:?}"), format!("{config:?}"), "{same}");
    }
}
