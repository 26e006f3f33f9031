//! The configuration of a sidecar and of the services.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Failure;
use super::readers::VIEWS;

/// Address of a port that the system chooses.
const ANYWHERE: &str = "127.0.0.1:0";
/// Those of `nearside-lab dev`.
const DEFINITIONS: &str = include_str!("../../lab/src/dev/views.toml");

/// A region in the services' file.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    name: &'static str,
    topic: String,
    listen: String,
    admin: String,
}

impl Region {
    pub(crate) fn new(name: &'static str, topic: &str) -> Self {
        let topic = format!("arn:aws:sns:{name}:000000000000:{topic}");
        Self { name, topic, listen: ANYWHERE.to_owned(), admin: ANYWHERE.to_owned() }
    }

    /// Region with these addresses.
    pub(crate) fn at(&self, listen: &str, admin: &str) -> Self {
        Self { listen: listen.to_owned(), admin: admin.to_owned(), ..self.clone() }
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }
}

/// The path as an argument.
pub(crate) fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| "a path that is no UTF-8".into())
}

/// Writes `NAME.toml` and the definitions beside it: where the catalogue listens with its pages, and
/// where the views' pages are.
pub(crate) fn service(
    directory: &Path,
    name: &str,
    engine: &str,
    catalogue: Option<(&str, &str)>,
    views: Option<&str>,
    regions: &[Region],
) -> Result<PathBuf, Failure> {
    let (file, definitions) = (directory.join(format!("{name}.toml")), directory.join("definitions.toml"));
    std::fs::write(&definitions, DEFINITIONS)?;
    let (listen, admin) = catalogue.unwrap_or((ANYWHERE, ANYWHERE));
    let mut written = format!(
        "[engine]\n{engine}\n[catalogue]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n\
         [[catalogue.type]]\nname = \"tenant\"\n[[catalogue.type]]\nname = \"shard\"\n\
         [views]\nfile = \"{}\"\nadmin = \"{}\"\n[drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n",
        text(&definitions)?,
        views.unwrap_or(ANYWHERE),
    );
    for Region { name, topic, listen, admin } in regions {
        let _ = write!(
            written,
            "[[region]]\nname = \"{name}\"\ntopic = \"{topic}\"\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n"
        );
    }
    std::fs::write(&file, written)?;
    Ok(file)
}

/// A sidecar's settings in front of these regions: name, address, topic.
pub(crate) fn sidecar(listen: &str, admin: &str, aws: &str, regions: &[(&str, String, String)]) -> String {
    let mut written = String::from("[service]\nname = \"contexts\"\n");
    for view in VIEWS {
        let _ = write!(
            written,
            "[[service.route]]\npath = \"/v1/contexts/{{key}}/{view}\"\nrecords = [\"{view}:{{key}}\"]\n"
        );
    }
    let _ = write!(
        written,
        "[listen]\ntcp = \"{listen}\"\n[admin]\nlisten = \"{admin}\"\n\
         [announcements]\nendpoint_url = \"{aws}\"\ninsecure_sns_signer = \"{aws}\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n"
    );
    for (name, address, topic) in regions {
        let _ = write!(
            written,
            "[[service.region]]\nname = \"{name}\"\nurl = \"http://{address}\"\ntopic = \"{topic}\"\n"
        );
    }
    written
}
