//! Nearside as a subject: the product's binary, run as a user would run it. Whatever a scenario does
//! not name stays at its default; nothing is switched off to look better.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::announcer::Announcing;
use super::process::{self, ProcessError, Running};
use super::product::Product;
use super::subject::{Address, Proof, Subject, SubjectError, Wish};
use super::{fetch, host};

/// The name in reports.
pub(super) const NEARSIDE: &str = "nearside";

/// Settings of a scenario besides the wish, as lines of TOML for each section.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// For `[cache]`.
    pub cache: String,
    /// For `[race]`.
    pub race: String,
    /// For the route.
    pub route: String,
    /// The topics that it subscribes to over SQS, one per region; `None` turns announcements off.
    pub live: Option<Announcing>,
}

#[derive(Debug)]
pub(super) struct Started {
    pub subject: Subject,
    /// Serves `/readyz` and `/metrics`.
    pub admin: SocketAddr,
}

/// Starts one, and waits until `/readyz` says 200 and, if it subscribes, until every region is
/// live.
pub(super) fn start(product: &Product, wish: &Wish, extra: &Extra) -> Result<Started, SubjectError> {
    let admin = process::free_port()?;
    let address = if wish.unix { Address::Unix(wish.socket()) } else { Address::Tcp(process::free_port()?) };
    let file = wish.folder.join("nearside.toml");
    host::write(&file, &configuration(wish, extra, &address, admin))?;
    let arguments = ["run".as_ref(), "--config".as_ref(), file.as_os_str()];
    let keeper = wish.keeper.as_deref();
    let mut running = process::start_held(keeper, &product.program, arguments, wish.core, &wish.folder)?;
    running.wait_until(|| ready(admin).then_some(()))?;
    if let Some(announcing) = &extra.live {
        wait_until_live(&mut running, admin, announcing)?;
    }
    let regions = wish.upstreams.len();
    let settings = format!("{regions} region{}, defaults{}", if regions == 1 { "" } else { "s" }, in_words(extra));
    let proof = match extra.live {
        Some(_) => fresh_hit(),
        None => Proof::Header { name: "cache-status".to_owned(), contains: "; hit".to_owned() },
    };
    let subject = Subject {
        name: NEARSIDE.to_owned(),
        version: product.version.clone(),
        settings,
        proof,
        address,
        process: Some(running),
    };
    Ok(Started { subject, admin })
}

/// Proof that a reply was a hit under a live subscription.
pub(super) fn fresh_hit() -> Proof {
    let (name, contains) = ("cache-status".to_owned(), "; hit".to_owned());
    Proof::HeaderWithout { name, contains, lacks: "provisional".to_owned() }
}

/// Waits until the regions' leases hold, which takes a heartbeat through each subscription.
pub(super) fn wait_until_live(
    running: &mut Running,
    admin: SocketAddr,
    announcing: &Announcing,
) -> Result<(), ProcessError> {
    running.wait_until(|| announcing.welcomes().then_some(()))?;
    running.wait_until(|| fetch::page(admin, "/readyz").is_ok_and(|page| is_live(&page)).then_some(()))
}

/// True if `/readyz` says fresh, and gives no reason why a region is not.
fn is_live(readyz: &str) -> bool {
    says(readyz, "fresh")
}

/// True if `/readyz` says this, and gives no reason why it is not all.
pub(super) fn says(readyz: &str, state: &str) -> bool {
    let said: serde_json::Value = serde_json::from_str(readyz).unwrap_or_default();
    said["state"] == state && said["reasons"].as_array().is_some_and(Vec::is_empty)
}

fn in_words(extra: &Extra) -> String {
    let live = extra.live.iter().map(|_| "live over SQS");
    let lines = [&extra.cache, &extra.race, &extra.route].into_iter().flat_map(|text| text.lines()).chain(live);
    lines.fold(String::new(), |words, line| words + ", " + line)
}

fn configuration(wish: &Wish, extra: &Extra, address: &Address, admin: SocketAddr) -> String {
    let mut text = "[service]\nname = \"bench\"\nversion_header = \"x-record-version\"\n".to_owned();
    for (index, upstream) in wish.upstreams.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "[[service.region]]\nname = \"region-{index}\"\nurl = \"http://{upstream}\"\n");
        if let Some(topic) = extra.live.as_ref().and_then(|announcing| announcing.topics.get(index)) {
            let _ = writeln!(text, "topic = \"{topic}\"");
        }
    }
    text += "[[service.route]]\npath = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n\
             batch = \"/v1/batch/{view}\"\n";
    text += &extra.route;
    text += "\n[listen]\n";
    text += &match address {
        Address::Tcp(address) => format!("tcp = \"{address}\"\n"),
        Address::Unix(path) => format!("tcp = false\nunix = \"{}\"\n", path.display()),
    };
    let (cache, race, bytes) = (&extra.cache, &extra.race, wish.cache_bytes);
    let _ = write!(
        text,
        "[admin]\nlisten = \"{admin}\"\n[cache]\nmax_bytes = \"{bytes}B\"\n{cache}\n[race]\n{race}\n\
         [drain]\nlinger = \"0s\"\n[announcements]\n"
    );
    text += &extra.live.as_ref().map_or_else(
        || "transport = \"off\"\n".to_owned(),
        |Announcing { endpoint, .. }| {
            format!("transport = \"sqs\"\nendpoint_url = \"{endpoint}\"\ninsecure_sns_signer = \"{endpoint}\"\n")
        },
    );
    text
}

/// True if `/readyz` on the admin port says 200.
pub(super) fn ready(admin: SocketAddr) -> bool {
    fetch::page(admin, "/readyz").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearside::config::{Transport, read};

    #[test]
    fn generated_configuration_is_valid() {
        let upstreams = vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        let folder = std::path::PathBuf::from("/tmp/bench");
        let wish =
            Wish { upstreams, core: None, folder, unix: false, h2c: false, keeper: None, cache_bytes: 1 << 30 };
        let extra = Extra { cache: "soft_ttl = \"1h\"".into(), race: "mode = \"all\"".into(), ..Extra::default() };
        for address in [Address::Tcp("127.0.0.1:3".parse().unwrap()), Address::Unix(wish.socket())] {
            let text = configuration(&wish, &extra, &address, "127.0.0.1:4".parse().unwrap());
            let config = read::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
            assert_eq!(config.service.regions.len(), 2);
            assert_eq!(config.cache.max_bytes, Some(1 << 30));
        }
    }

    #[test]
    fn topics_are_subscribed_and_signer_trusted() {
        let (upstreams, folder) = (vec!["127.0.0.1:1".parse().unwrap()], std::path::PathBuf::from("/tmp/bench"));
        let wish =
            Wish { upstreams, core: None, folder, unix: false, h2c: false, keeper: None, cache_bytes: 1 << 30 };
        let endpoint = "http://127.0.0.1:5".to_owned();
        let topics = vec!["arn:aws:sns:eu-west-1:000000000000:context-changes".to_owned()];
        let live = Some(Announcing { orders: "127.0.0.1:6".parse().unwrap(), endpoint, topics });
        let extra = Extra { live, ..Extra::default() };
        let address = Address::Tcp("127.0.0.1:3".parse().unwrap());
        let text = configuration(&wish, &extra, &address, "127.0.0.1:4".parse().unwrap());
        let config = read::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(config.announcements.transport, Transport::Sqs);
        assert_eq!(config.service.regions[0].topic.as_ref().map(|topic| topic.region.as_str()), Some("eu-west-1"));
    }

    #[test]
    fn live_when_no_region_gives_reason() {
        assert!(is_live(r#"{"state":"fresh","reasons":[]}"#));
        assert!(!is_live(r#"{"state":"fresh","reasons":["region-1: subscribing"]}"#));
        assert!(!is_live(r#"{"state":"warming","reasons":[]}"#) && !is_live("fresh"));
    }
}
