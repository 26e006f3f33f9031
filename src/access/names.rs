//! Names in the paths of a region's node: the view that a request asks for, by its method and path
//! alone.

use http::Method;

use crate::model::names::is_name;

/// Target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'p> {
    /// A view by this name, whether or not there is one.
    View(&'p str),
    /// Nothing that a node has.
    Elsewhere,
}

impl<'p> Asked<'p> {
    /// The view by its name, if it is one.
    #[must_use]
    pub const fn view(self) -> Option<&'p str> {
        match self {
            Self::View(view) => Some(view),
            Self::Elsewhere => None,
        }
    }
}

/// The view in the path of a read, `/v1/contexts/{key}/{view}`, or of a batch, `/v1/batch/{view}`.
///
/// A name counts as it is written: one that is percent-encoded is no view's. The rest of the path
/// does not matter, since a node has nothing at a path that does not name its view so.
#[must_use]
pub fn asked<'p>(method: &Method, path: &'p str) -> Asked<'p> {
    let name = match path.strip_prefix("/v1/batch/") {
        Some(name) if *method == Method::POST => Some(name).filter(|name| is_name(name)),
        _ => context(path).map(|(_, view)| view),
    };
    name.map_or(Asked::Elsewhere, Asked::View)
}

/// Key, as it is written, and view of `/v1/contexts/{key}/{view}`. The gate and the region's table
/// read paths by it: what one takes for a view's name, no other may take for something else.
#[must_use]
pub fn context(path: &str) -> Option<(&str, &str)> {
    let parts = path.strip_prefix("/v1/contexts/")?.split_once('/')?;
    Some(parts).filter(|(_, view)| is_name(view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_is_named_by_read_and_batch() {
        for (method, path, asked_for) in [
            (Method::GET, "/v1/contexts/acme/limits", Asked::View("limits")),
            (Method::HEAD, "/v1/contexts/acme/limits", Asked::View("limits")),
            (Method::PUT, "/v1/contexts/acme/limits", Asked::View("limits")),
            (Method::GET, "/v1/contexts/a%2Fb/limits", Asked::View("limits")),
            (Method::POST, "/v1/batch/limits", Asked::View("limits")),
            (Method::GET, "/v1/batch/limits", Asked::Elsewhere),
            (Method::GET, "/v1/contexts/acme/limit%73", Asked::Elsewhere),
            (Method::GET, "/v1/contexts/acme/x/limits", Asked::Elsewhere),
            (Method::GET, "/v1/contexts/acme/limits/", Asked::Elsewhere),
            (Method::GET, "/v1/contexts/limits", Asked::Elsewhere),
            (Method::GET, "//v1/contexts/acme/limits", Asked::Elsewhere),
            (Method::GET, "/v1/contexts/acme/_grants", Asked::Elsewhere),
            (Method::GET, "/", Asked::Elsewhere),
        ] {
            assert_eq!(asked(&method, path), asked_for, "{method} {path}");
        }
    }
}
