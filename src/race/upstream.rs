//! An upstream of a route: whom to ask, and what a request gets besides what its caller asks for.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderValue, header};

use super::floors::{self, Stated};
use super::region::Regions;
use crate::config::grants_version::GRANTS_VERSION;
use crate::config::{Form, PathTemplate};
use crate::credentials::HeldCredentials;
use crate::http::exchange::Outgoing;
use crate::model::time::Moment;
use crate::shape::common_form::CommonForm;
use crate::shape::form::insert_form;

/// Source of the records of one route.
pub(crate) struct Upstream {
    /// As fills ask them: perhaps compressing.
    pub(crate) regions: Arc<Regions>,
    /// As everything else asks them.
    pub(crate) direct: Arc<Regions>,
    /// The sidecar's own, if it asks with them.
    pub(crate) credentials: Option<HeldCredentials>,
    /// If it is asked for Protobuf.
    pub(crate) common_form: Option<Arc<CommonForm>>,
    /// Form that it is asked for; `None` asks as the route says.
    pub(crate) form: Option<Form>,
    /// Rewrite of the route's path to the upstream's.
    pub(crate) rewrite: Option<Rewrite>,
    /// Its versions are those of announcements.
    pub(crate) states_versions: bool,
}

/// The route's path, and the upstream's with the same names.
pub(crate) struct Rewrite {
    pub(crate) from: PathTemplate,
    pub(crate) to: PathTemplate,
}

impl Rewrite {
    /// Upstream's target for `path_and_query` of the route.
    fn target<'t>(&self, path_and_query: &'t str) -> Cow<'t, str> {
        rewritten(&self.from, Some(&self.to), path_and_query)
    }
}

/// Target of this upstream; the path stays where no other is named, or where it does not fit `from`.
pub(crate) fn rewritten<'t>(from: &PathTemplate, to: Option<&PathTemplate>, path_and_query: &'t str) -> Cow<'t, str> {
    let path_len = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(path_len);
    let Some((to, captures)) = to.zip(from.captures(path)) else { return Cow::Borrowed(path_and_query) };
    Cow::Owned(to.filled(|name| captures.written(name).unwrap_or_default()) + query)
}

impl Upstream {
    /// Form that it is asked for where the route would be asked for `current`.
    pub(crate) fn form_for(&self, current: Option<Form>) -> Option<Form> {
        current.map(|current| self.form.unwrap_or(current))
    }
}

/// Fields of a request beside those of its caller.
#[derive(Default)]
pub(crate) struct Additions {
    /// The tag of what is stored.
    pub(crate) if_none_match: Option<HeaderValue>,
    /// Past any cache in front of the upstream.
    pub(crate) no_cache: bool,
    pub(crate) floor: Option<Stated>,
    /// The newest version of the grants that is known (R22); 0 for none.
    pub(crate) grants: u64,
    /// The form that is asked for, whatever the request's own lines.
    pub(crate) form: Option<Form>,
    /// Bytes as they are, without a content coding.
    pub(crate) is_uncoded: bool,
    /// Time of sending, if it asks for the form that all regions have by then.
    pub(crate) negotiated: Option<Moment>,
}

impl Additions {
    fn is_empty(&self) -> bool {
        let Self { if_none_match, no_cache, floor, grants, form, is_uncoded, negotiated: _ } = self;
        let states_none = floor.is_none() && *grants == 0;
        if_none_match.is_none() && !no_cache && states_none && form.is_none() && !is_uncoded
    }
}

/// The request as the upstream gets it: at its own path, in its form, with validators, the floor, and
/// the sidecar's own credentials. It is shared unchanged if there are none of these.
pub(crate) fn prepare_request(upstream: &Upstream, request: Arc<Outgoing>, with: Additions) -> Arc<Outgoing> {
    let mut request = match upstream.common_form.as_ref().zip(with.negotiated) {
        Some((common, at)) => common.negotiated(request, at),
        None => request,
    };
    // A minted token is added to each attempt: it may change between two.
    let credentials = upstream.credentials.as_ref().and_then(HeldCredentials::of_file);
    if with.is_empty() && credentials.is_none() && upstream.rewrite.is_none() {
        return request;
    }
    let prepared = Arc::make_mut(&mut request);
    if let Some(rewrite) = &upstream.rewrite
        && let Cow::Owned(target) = rewrite.target(&prepared.path_and_query)
    {
        prepared.path_and_query = target;
    }
    insert_form(&mut prepared.headers, with.form, with.is_uncoded);
    if let Some(tag) = with.if_none_match {
        prepared.headers.insert(header::IF_NONE_MATCH, tag);
    }
    floors::insert(&mut prepared.headers, with.no_cache, with.floor);
    if with.grants > 0 {
        prepared.headers.insert(GRANTS_VERSION, HeaderValue::from(with.grants));
    }
    if let Some(credentials) = credentials {
        prepared.headers.insert(credentials.header.clone(), credentials.value());
    }
    request
}
