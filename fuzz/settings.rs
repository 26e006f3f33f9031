//! Targets of what an operator writes: route templates and the configuration, and the paths that
//! meet them.

use nearside::config::error::{ConfigError, Place};
use nearside::config::read::from_toml_with_origins;
use nearside::config::template::{Captures, is_plain};
use nearside::config::{Config, PathTemplate, RecordTemplate, Segment, effective};
use nearside::protocol::limits::{RECORD_KEY_BYTES, REGIONS};
use nearside::routing::router::Router;
use percent_encoding::percent_decode_str;

/// Two path templates, a record template and a path, a line each: a template reads back as it was
/// written, and what it takes of a path puts that path together again.
pub(crate) fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(4, '\n');
    let [one, other, record, path] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let Ok(one) = PathTemplate::parse(one) else { return };
    assert_eq!(PathTemplate::parse(&one.to_string()).as_ref(), Ok(&one));
    assert!(one.covers(&one) && one.overlaps(&one));
    if let Ok(record) = RecordTemplate::parse(record) {
        assert_eq!(RecordTemplate::parse(&record.to_string()).as_ref(), Ok(&record));
        captured(&one, &record, path);
    }
    let Ok(other) = PathTemplate::parse(other) else { return };
    let (ours, theirs) = (matches(&one, path).is_some(), matches(&other, path).is_some());
    assert_eq!(one.overlaps(&other), other.overlaps(&one));
    assert!(!one.covers(&other) || one.overlaps(&other));
    assert!(!(ours && theirs) || one.overlaps(&other), "{path:?} is a path of both");
    assert!(!(one.covers(&other) && theirs) || ours, "{path:?} is covered");
}

/// As the router takes a path: only a plain one.
fn matches<'p>(template: &'p PathTemplate, path: &'p str) -> Option<Captures<'p>> {
    template.captures(path).filter(|_| is_plain(path))
}

/// Segment by segment, and the record's key from the parts.
fn captured(template: &PathTemplate, record: &RecordTemplate, path: &str) {
    let Some(captures) = matches(template, path) else { return };
    assert!(is_plain(path));
    let written: Vec<&str> = path[1..].split('/').collect();
    assert_eq!(written.len(), template.segments.len());
    for (segment, written) in template.segments.iter().zip(written) {
        match segment {
            Segment::Literal(literal) => assert_eq!(literal, written),
            Segment::Named(name) => {
                let value = captures.get(name).expect("every name has a value");
                assert_eq!(Ok(value.to_string()), percent_decode_str(written).decode_utf8().map(String::from));
                assert!(!value.split(['/', '\\']).any(|part| part == "." || part == ".."), "{value:?}");
            }
        }
    }
    let key: String = record
        .key
        .iter()
        .map(|part| match part {
            Segment::Literal(text) => text.clone(),
            Segment::Named(name) => captures.get(name).unwrap_or_default().into_owned(),
        })
        .collect();
    assert_eq!(record.key_of(&captures), key);
}

/// A text is a configuration that reads back from what `nearside check` prints, or a list of
/// config errors with their places.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match from_toml_with_origins(text) {
        Ok((config, origins)) => {
            usable(&config);
            routed(&config);
            let printed = printed(&origins);
            let again = from_toml_with_origins(&printed);
            assert!(again.is_ok(), "{again:?} of {printed}");
            if let Ok((again, _)) = again {
                assert_eq!(format!("{again:?}"), format!("{config:?}"), "{printed}");
            }
        }
        Err(errors) => reported(text, &errors),
    }
}

fn printed(origins: &nearside::config::scope::Origins) -> String {
    let mut out = Vec::new();
    effective::print(&mut out, origins, effective::TomlStyles::default()).expect("a vector takes everything");
    String::from_utf8(out).expect("settings are text")
}

/// Checks for at least one config error, in order, each once, each on one line with a place in this
/// text, and what to write instead.
fn reported(text: &str, errors: &[ConfigError]) {
    assert!(!errors.is_empty());
    assert!(errors.is_sorted() && errors.windows(2).all(|two| two[0] != two[1]));
    for error in errors {
        assert!(!error.wrong.is_empty() && !error.suggestion.is_empty(), "{error}");
        assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
        match &error.place {
            Place::File(file) => assert_eq!(&**file, "nearside.toml"),
            Place::At { line, column, .. } => {
                let written = text.split('\n').nth(line - 1).expect("a line of the text");
                assert!((1..=written.chars().count() + 1).contains(column), "{error}");
            }
            place => assert!(matches!(place, Place::Default), "{error}"),
        }
    }
}

/// Checks properties that the code behind it never checks again.
fn usable(config: &Config) {
    let service = &config.service;
    assert!((1..=REGIONS).contains(&service.regions.len()) && config.race.primary < service.regions.len());
    for (at, region) in service.regions.iter().enumerate() {
        assert!(matches!(region.url.scheme(), "http" | "https") && region.url.has_host(), "{region:?}");
        assert!(service.regions[..at].iter().all(|other| other.name != region.name), "{region:?}");
    }
    for route in &service.routes {
        assert!((1..=8).contains(&route.records.len()), "{route:?}");
        for record in &route.records {
            let mut names = record.names();
            assert!(names.all(|name| route.path.names().any(|known| known == name)), "{route:?}");
        }
    }
    let announcements = &config.announcements;
    assert!(announcements.insecure_sns_signer.is_none() || announcements.endpoint_url.is_some());
    assert!(config.listen.tcp.is_some() || config.listen.unix.is_some());
}

/// Every route is found by a path of its own, unless an earlier one takes it.
fn routed(config: &Config) {
    let router = Router::new(&config.service);
    for (at, route) in config.service.routes.iter().enumerate() {
        let written: Vec<&str> = route
            .path
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Literal(literal) => literal.as_str(),
                Segment::Named(_) => "a%20b",
            })
            .collect();
        let path = format!("/{}", written.join("/"));
        let Some(found) = router.find(&path) else {
            assert!(path.len() + 16 > RECORD_KEY_BYTES / 2, "{path} is unrouted");
            continue;
        };
        assert!(found.index.0 <= at && matches(&found.route.path, &path).is_some());
        assert!(found.records().all(|(kind, key)| !kind.is_empty() && !key.is_empty()));
    }
}
