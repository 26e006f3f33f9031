//! Change lines of a reload for files that were rewritten while the settings that name them are as
//! before.

use crate::config::{Credentials, Route};
use crate::credentials::HeldCredentials;
use crate::http::client::attempt::HttpOrigin;
use crate::request::settings::Settings;

/// Change lines under unchanged settings: the files that these name were rewritten.
pub(super) fn changed_files(
    running: &Settings,
    sidecar: &Settings,
    http: Option<(&HttpOrigin, &HttpOrigin)>,
) -> Vec<String> {
    let mut changed = Vec::new();
    let same_file = running.fill.config.listen.token_file == sidecar.fill.config.listen.token_file;
    if same_file && !running.admission.asks_for_the_same_token(&sidecar.admission) {
        changed.push("listen.token_file: another token".to_owned());
    }
    changed.extend(changed_credentials(running, sidecar));
    changed.extend(changed_schema_files(running, sidecar));
    let regions = |sidecar: &Settings, index: usize| sidecar.fill.config.service.regions[index].clone();
    for index in http.map(|(before, http)| http.differ(before)).unwrap_or_default() {
        let (before, region) = (regions(running, index), regions(sidecar, index));
        if (before.url, before.tls) == (region.url, region.tls) {
            changed.push(format!("service.region[{}].tls: other certificates", region.name));
        }
    }
    changed
}

/// A change line for each file of credentials, of a route or of its candidate, that has another
/// value under unchanged settings.
fn changed_credentials(running: &Settings, sidecar: &Settings) -> Vec<String> {
    let mut changed = Vec::new();
    let (routes, old_routes) = (&sidecar.fill.config.service.routes, &running.fill.config.service.routes);
    for (route, upstreams) in routes.iter().zip(&sidecar.fill.upstreams) {
        let old = old_routes.iter().position(|old| old.identity == route.identity);
        let old = old.and_then(|index| running.fill.upstreams[index].current.credentials.as_ref());
        if is_other_value(old, upstreams.current.credentials.as_ref()) {
            changed.push(format!("service.route[{}].credentials.file: another value", route.path.text));
        }
        let Some(file) = credentials_of_candidate(route) else { continue };
        let old = old_routes.iter().position(|old| credentials_of_candidate(old) == Some(file));
        let old = old.and_then(|index| running.fill.upstreams[index].candidate.as_ref());
        let old = old.and_then(|candidate| candidate.credentials.as_ref());
        let new = upstreams.candidate.as_ref().and_then(|candidate| candidate.credentials.as_ref());
        if is_other_value(old, new) {
            changed.push(format!("service.route[{}].candidate.credentials_file: another value", route.path.text));
        }
    }
    changed
}

/// Credentials that a candidate does not share with its route.
fn credentials_of_candidate(route: &Route) -> Option<&Credentials> {
    route.candidate.as_ref()?.credentials.as_ref()
}

fn is_other_value(old: Option<&HeldCredentials>, new: Option<&HeldCredentials>) -> bool {
    let [old, new] = [old, new].map(|held| held.and_then(HeldCredentials::of_file));
    old.zip(new).is_some_and(|(old, new)| old.value() != new.value())
}

/// A change line for each route whose schema file has new content under unchanged settings.
fn changed_schema_files(running: &Settings, sidecar: &Settings) -> Vec<String> {
    let old_routes = &running.fill.config.service.routes;
    let routes = sidecar.fill.config.service.routes.iter().enumerate();
    routes
        .filter_map(|(index, route)| {
            let old_index = old_routes.iter().position(|old| old.path == route.path)?;
            let same_settings = old_routes[old_index].payload.message == route.payload.message;
            let content_changed = same_settings && schema_id(running, old_index) != schema_id(sidecar, index);
            content_changed.then(|| format!("service.route[{}].schema: other content", route.path.text))
        })
        .collect()
}

fn schema_id(settings: &Settings, index: usize) -> Option<u64> {
    Some(settings.fill.shapes[index].as_ref()?.schema()?.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::scripted::{World, shows};

    #[tokio::test(start_paused = true)]
    async fn rewritten_credentials_are_reported() {
        let files = tempfile::tempdir().unwrap();
        let [own, candidates] = ["own", "candidates"].map(|name| {
            std::fs::write(files.path().join(name), "one").unwrap();
            files.path().join(name)
        });
        let settings = format!(
            "identity = \"sidecar\"\ncredentials = {{ file = \"{}\" }}\n\
             candidate = {{ path = \"/v2/of/{{key}}\", credentials_file = \"{}\" }}",
            own.display(),
            candidates.display()
        );
        let mut world = World::moved(&settings, shows(7));
        for (file, setting) in [(own, "credentials.file"), (candidates, "candidate.credentials_file")] {
            let running = world.sidecar.clone();
            world.reload(|_| {});
            assert_eq!(changed_files(&running, &world.sidecar, None), Vec::<String>::new());
            std::fs::write(file, "two").unwrap();
            world.reload(|_| {});
            let line = format!("service.route[/v1/moved/{{key}}].{setting}: another value");
            assert_eq!(changed_files(&running, &world.sidecar, None), [line]);
        }
        world.stop().await;
    }
}
