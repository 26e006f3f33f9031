//! Settings that a reload applies, and those that it says need a restart.

use super::*;
use crate::config::read::from_toml_with_origins;

const REGIONS: &str = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
                       [[service.region]]\nname = \"b\"\nurl = \"http://127.0.0.1:2\"\n";

fn read(text: &str) -> (Config, Origins) {
    from_toml_with_origins(text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn route(path: &str, more: &str) -> String {
    format!("[[service.route]]\npath = \"{path}\"\nrecords = [\"context:{{key}}\"]\n{more}")
}

/// Changes by a reload from the one text to the other, and the configuration that holds then.
fn reload(running: &str, wanted: &str) -> (Changes, Config, Origins) {
    let ((running, origins), (wanted, theirs)) = (read(running), read(wanted));
    let (changes, origins) = compare(&origins, &theirs);
    (changes, merged(&running, &wanted), origins)
}

#[test]
fn reformatted_text_changes_nothing() {
    let running = format!("{REGIONS}[cache]\nttl = \"1h\"\nmax_bytes = \"1MiB\"\n");
    let wanted = format!("{REGIONS}[cache]\nttl = \"60m\"\nmax_bytes = 1048576\n[race]\ndeadline = \"2s\"\n");
    assert_eq!(reload(&running, &wanted).0, Changes::default());
}

#[test]
fn changed_setting_reports_both_values() {
    let running = format!("{REGIONS}{}", route("/c/{key}", ""));
    let wanted = format!("{running}[cache]\nttl = \"2h\"\n");
    let (changes, config, _) = reload(&running, &wanted);
    assert_eq!(changes.live, ["cache.ttl: \"1h\" -> \"2h\""]);
    assert!(changes.restart.is_empty());
    assert_eq!(config.service.routes[0].ttl.as_secs(), 7200);
}

#[test]
fn restart_settings_keep_value_until_restart() {
    let wanted = format!("{REGIONS}[listen]\ntcp = \"127.0.0.1:9999\"\n[log]\nformat = \"json\"\n");
    let (changes, config, origins) = reload(REGIONS, &wanted);
    assert_eq!((changes.live.len(), changes.restart), (0, vec!["listen.tcp".to_owned(), "log.format".to_owned()]));
    assert_eq!((config.listen.tcp.unwrap().port(), config.log.format), (8700, crate::config::LogFormat::Human));
    let (again, _) = compare(&origins, &read(&wanted).1);
    assert_eq!(again.restart, ["listen.tcp", "log.format"]);
    assert_eq!(compare(&origins, &read(REGIONS).1).0, Changes::default());
}

#[test]
fn region_set_changes_need_restart() {
    let wanted = "[[service.region]]\nname = \"c\"\nurl = \"http://127.0.0.1:3\"\n\
                  [[service.region]]\nname = \"b\"\nurl = \"http://127.0.0.1:4\"\n[race]\nprimary = \"b\"\n";
    let (changes, config, origins) = reload(REGIONS, wanted);
    assert_eq!(changes.restart, ["service.region[c] (new)", "service.region[a] (taken away)"]);
    let url = "service.region[b].url: \"http://127.0.0.1:2\" -> \"http://127.0.0.1:4\"";
    assert_eq!(changes.live, ["race.primary: \"\" -> \"b\"", url]);
    let urls: Vec<_> = config.service.regions.iter().map(|it| (it.name.as_str(), it.url.port().unwrap())).collect();
    assert_eq!((urls, config.race.primary), (vec![("a", 1), ("b", 4)], 1));
    let (again, _) = compare(&origins, &read(wanted).1);
    assert_eq!((again.live.len(), again.restart.len()), (0, 2), "{again:?}");

    let turned = "[[service.region]]\nname = \"b\"\nurl = \"http://127.0.0.1:2\"\n\
                  [[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n";
    let (changes, config, _) = reload(REGIONS, turned);
    assert_eq!((changes, config.service.regions[0].name.as_str()), (Changes::default(), "a"));
    assert_eq!(config.race.primary, 1, "the first in the file is asked first");
}

#[test]
fn route_changes_apply_on_reload() {
    let running = format!("{REGIONS}{}{}", route("/a/{key}", ""), route("/b/{key}", ""));
    let wanted =
        format!("{REGIONS}{}{}{}", route("/c/{key}", ""), route("/b/{key}", "ttl = \"5m\"\n"), route("/a/{key}", ""));
    let (changes, config, _) = reload(&running, &wanted);
    let ttl = "service.route[/b/{key}].ttl: \"1h\" -> \"5m\"";
    assert_eq!(changes.live, [ttl, "service.route[/c/{key}]: new", "service.route: another order"]);
    assert_eq!((changes.restart.len(), config.service.routes.len()), (0, 3));
    let back = reload(&wanted, &running).0;
    assert!(back.live.contains(&"service.route[/c/{key}]: taken away".to_owned()), "{back:?}");
}

#[test]
fn secret_prefix_is_not_reported() {
    let [before, after] = ["Bearer ", "Bearer s3cret"].map(|prefix| {
        let more = format!("identity = \"sidecar\"\ncredentials = {{ file = \"f\", prefix = \"{prefix}\" }}\n");
        format!("{REGIONS}{}", route("/a/{key}", &more))
    });
    let changes = reload(&before, &after).0;
    assert_eq!(changes.live, ["service.route[/a/{key}].credentials.prefix"]);
}
