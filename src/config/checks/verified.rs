//! Tokens that a sidecar verifies, and the routes that go by them.

use super::issuers;
use crate::config::Config;
use crate::config::error::{ConfigProblem, quoted};
use crate::config::schema::{ACCESS_AUDIENCE, ACCESS_OTHER_AUDIENCES, ISSUER_ISS, ROUTE_IDENTITY};
use crate::config::scope::Collector;

pub(super) fn check(collector: &mut Collector, config: &Config) {
    let access = &config.access;
    issuers::check(collector, &access.issuers);
    if !access.issuers.is_empty() && access.audience.is_empty() {
        let what = "no audience: a token for any other service would do".to_owned();
        let suggestion = "write access.audience = \"https://regions.example\": the `aud` that the service expects";
        let place = collector.origins.place(&ISSUER_ISS, Some(0));
        collector.error(&ACCESS_AUDIENCE, None, place, ConfigProblem::new(what, suggestion));
    }
    if !access.audience.is_empty() && access.other_audiences.contains(&access.audience) {
        let what = format!("{} is access.audience itself", quoted(&access.audience));
        collector.refuse(&ACCESS_OTHER_AUDIENCES, None, what, "name the audiences of the other services, or none");
    }
    if access.issuers.is_empty() && !access.audience.is_empty() {
        let text = "access.audience has no effect without [[access.issuer]]".to_owned();
        collector.warn_of(&ACCESS_AUDIENCE, None, text);
    }
    let routes = &config.service.routes;
    for (at, _) in routes.iter().enumerate().filter(|(_, route)| route.identity.claims().is_some()) {
        if access.issuers.is_empty() {
            let what = "no issuer whose tokens are verified".to_owned();
            collector.refuse(&ROUTE_IDENTITY, Some(at), what, "write [[access.issuer]] and access.audience");
        }
    }
    let is_used = routes.iter().any(|route| route.identity.needs_permits());
    if !access.issuers.is_empty() && !is_used {
        let text = "no route verifies tokens: issuers have an effect with identity = \"verified\" or \"granted\"";
        collector.warn_of(&ISSUER_ISS, Some(0), text.to_owned());
    }
}
