//! Owns nearside as a subject: the same executable, as a user would run it.
//!
//! Before it: a [`Wish`]. After it: a [`Subject`] that is ready. Invariant: whatever a scenario does not name is at its
//! default; nothing is switched off to look better.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::ground;
use super::load::{Ask, Load};
use super::pace::{End, Pace};
use super::paths::Paths;
use super::process;
use super::subject::{Address, Proof, StartError, Subject, Wish};

/// Its name in reports.
pub const NEARSIDE: &str = "nearside";

/// What a scenario sets besides the wish: lines of TOML per section.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// In `[cache]`.
    pub cache: String,
    /// In `[race]`.
    pub race: String,
}

/// A running sidecar, and where its admin port is.
#[derive(Debug)]
pub struct Started {
    /// To be measured.
    pub subject: Subject,
    /// `/readyz`, `/metrics`.
    pub admin: SocketAddr,
}

/// Starts one and waits until `/readyz` says 200.
pub fn start(program: &Path, wish: &Wish, extra: &Extra) -> Result<Started, StartError> {
    let admin = process::free_port()?;
    let address = if wish.unix { Address::Unix(wish.socket()) } else { Address::Tcp(process::free_port()?) };
    let file = wish.folder.join("nearside.toml");
    ground::write(&file, &configuration(wish, extra, &address, admin))?;
    let arguments = ["run".as_ref(), "--config".as_ref(), file.as_os_str()];
    let mut running = process::start(program, arguments, wish.core, &wish.folder)?;
    running.wait_until(|| ready(admin).then_some(()))?;
    let regions = wish.upstreams.len();
    let settings = format!("{regions} region{}, defaults{}", if regions == 1 { "" } else { "s" }, in_words(extra));
    let subject = Subject {
        name: NEARSIDE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings,
        proof: Proof::Header { name: "cache-status".to_owned(), contains: "; hit".to_owned() },
        address,
        process: Some(running),
    };
    Ok(Started { subject, admin })
}

fn in_words(extra: &Extra) -> String {
    let lines = extra.cache.lines().chain(extra.race.lines());
    lines.fold(String::new(), |words, line| words + ", " + line)
}

fn configuration(wish: &Wish, extra: &Extra, address: &Address, admin: SocketAddr) -> String {
    let mut text = "[service]\nname = \"bench\"\nversion_header = \"x-record-version\"\n".to_owned();
    for (index, upstream) in wish.upstreams.iter().enumerate() {
        // A String takes everything.
        let _ = write!(text, "[[service.region]]\nname = \"region-{index}\"\nurl = \"http://{upstream}\"\n");
    }
    text += "[[service.route]]\npath = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n[listen]\n";
    text += &match address {
        Address::Tcp(address) => format!("tcp = \"{address}\"\n"),
        Address::Unix(path) => format!("tcp = false\nunix = \"{}\"\n", path.display()),
    };
    let (cache, race, bytes) = (&extra.cache, &extra.race, wish.cache_bytes);
    let _ = write!(
        text,
        "[admin]\nlisten = \"{admin}\"\n[cache]\nmax_bytes = \"{bytes}B\"\n{cache}\n[race]\n{race}\n\
         [announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n"
    );
    text
}

/// Whether the admin port says that it is ready.
pub fn ready(admin: SocketAddr) -> bool {
    let address = Address::Tcp(admin);
    let ask = Ask {
        paths: Paths::Fixed("/readyz".to_owned()),
        headers: String::new(),
        host: admin.to_string(),
        body_bytes: None,
        proof: Proof::Always,
    };
    let asked = Load::open(&address, 1, ask).and_then(|mut load| load.run(Pace::Closed, End::Requests(1)));
    asked.is_ok_and(|counted| counted.answered == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn the_generated_configuration_is_one() {
        let upstreams = vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        let folder = std::path::PathBuf::from("/tmp/bench");
        let wish = Wish { upstreams, core: None, folder, unix: false, cache_bytes: 1 << 30 };
        let extra = Extra { cache: "soft_ttl = \"1h\"".into(), race: "mode = \"all\"".into() };
        for address in [Address::Tcp("127.0.0.1:3".parse().unwrap()), Address::Unix(wish.socket())] {
            let text = configuration(&wish, &extra, &address, "127.0.0.1:4".parse().unwrap());
            let config = read::from_toml(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
            assert_eq!(config.service.regions.len(), 2);
            assert_eq!(config.cache.max_bytes, Some(1 << 30));
        }
    }
}
