//! The regions' grants in `/status` (R22): to which version they are held, who vouches for it, and what
//! each region states.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::access::issuer::IssuerState;
use crate::model::time::Wall;
use crate::protocol::grants_floor::GrantsView;
use crate::telemetry::metrics::exposition::GrantsGauges;

/// The present state that a [`GrantsStatus`] is made from.
#[derive(Clone, Debug, Default)]
pub struct GrantsFacts {
    /// Issuers whose tokens the sidecar verifies.
    pub issuers: Vec<IssuerState>,
    /// Permits of callers that are remembered.
    pub permits: usize,
    pub view: GrantsView,
}

/// Grants of the regions, as far as a sidecar knows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrantsStatus {
    /// The version that regions are held to; `None` before two regions know one.
    pub floor: Option<u64>,
    /// Regions that announced or stated it, or a newer one.
    pub vouched_by: Vec<String>,
    /// Callers' permits for views that are remembered.
    pub permits: usize,
    /// The newest version that each region's nodes stated; `None`: they state none.
    pub stated: BTreeMap<String, Option<u64>>,
    /// Issuers of callers' tokens; left out where none is verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerStatus>,
}

/// State of an issuer of tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IssuerStatus {
    pub iss: String,
    /// True while there are keys of its that are not too old.
    pub known: bool,
    /// True if its keys come over the network.
    pub fetched: bool,
    /// Time since these were asked for; `None` before the first, and of a file.
    pub keys_age_s: Option<f64>,
    /// Reason for which the newest fetch gave nothing.
    pub failure: Option<String>,
}

impl From<IssuerState> for IssuerStatus {
    fn from(state: IssuerState) -> Self {
        let IssuerState { iss, age, is_fetched, is_known, failure } = state;
        let keys_age_s = age.map(|age| age.as_secs_f64());
        Self { iss, known: is_known, fetched: is_fetched, keys_age_s, failure }
    }
}

impl GrantsStatus {
    /// `None` while nobody states or announces any grants, and no tokens are verified.
    pub(super) fn of(facts: &GrantsFacts, regions: &[String]) -> Option<Self> {
        let GrantsView { floor, vouching, stated } = &facts.view;
        if facts.issuers.is_empty() && *floor == 0 && stated.iter().all(|version| *version == 0) {
            return None;
        }
        Some(Self {
            floor: Some(*floor).filter(|floor| *floor > 0),
            vouched_by: vouching.iter().filter_map(|id| regions.get(id.index()).cloned()).collect(),
            permits: facts.permits,
            issuers: facts.issuers.iter().cloned().map(IssuerStatus::from).collect(),
            stated: regions.iter().cloned().zip(stated.iter().map(|it| Some(*it).filter(|it| *it > 0))).collect(),
        })
    }

    pub(super) fn gauges(&self) -> GrantsGauges {
        let fetched = self.issuers.iter().filter(|issuer| issuer.fetched);
        let keys_ages = fetched.map(|issuer| (issuer.iss.clone(), issuer.keys_age_s.unwrap_or(f64::INFINITY)));
        GrantsGauges {
            permits: self.permits,
            floor: self.floor.map(Wall::from_millis),
            keys_ages: keys_ages.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ids::RegionId;

    #[test]
    fn grants_are_shown_once_stated() {
        let names = ["eu", "us"].map(str::to_owned);
        let view = GrantsView { floor: 0, vouching: [].into_iter().collect(), stated: vec![0, 0] };
        assert_eq!(GrantsStatus::of(&GrantsFacts { view: view.clone(), ..GrantsFacts::default() }, &names), None);
        let view = GrantsView { floor: 7, vouching: [RegionId(1)].into_iter().collect(), stated: vec![0, 8] };
        let shown = GrantsStatus::of(&GrantsFacts { permits: 3, view, ..GrantsFacts::default() }, &names).unwrap();
        let expected = json!({"floor": 7, "vouched_by": ["us"], "permits": 3, "stated": {"eu": null, "us": 8}});
        assert_eq!(serde_json::to_value(&shown).unwrap(), expected);
        assert_eq!(shown.gauges().permits, 3);
    }
}
