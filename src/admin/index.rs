//! The page for people at `/`: how the sidecar is doing, and where to look next. Everything that is
//! not fixed text is escaped, and nothing is loaded from elsewhere.

use std::fmt::Write;

use super::status::Status;

const READY: (&str, &str) =
    ("/readyz", "whether it answers, and how fresh: warming, fresh, doubtful, degraded, draining");
const SERVICE_READY: (&str, &str) = ("/readyz", "whether it does its work: starting, serving, degraded, draining");
const LINKS: [(&str, &str); 3] = [
    ("/status", "everything below and more, as JSON"),
    ("/metrics", "for Prometheus"),
    ("/livez", "whether the process runs"),
];

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
     table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left}";

pub(super) fn page(status: &Status) -> String {
    let mut html = String::with_capacity(4 << 10);
    write_page(&mut html, status).expect("writing to a String cannot fail");
    html
}

fn write_page(html: &mut String, status: &Status) -> std::fmt::Result {
    let service = escaped(&status.service);
    write!(html, "<!doctype html><html lang=en><meta charset=utf-8><title>Nearside: {service}</title>")?;
    write!(html, "<style>{STYLE}</style><h1>Nearside for {service}</h1>")?;
    write!(
        html,
        "<p><strong>{}</strong>, up {} s, version {}</p>",
        status.state.into_str(),
        status.uptime_s,
        status.version
    )?;
    lines(html, "What is not as it should be", &status.reasons)?;
    lines(html, "Warnings", &status.warnings)?;
    lines(html, "Settings that relax a protection", &status.insecure)?;
    write!(html, "<table><tr><th>region<th>host<th>subscription<th>proof<th>epoch<th>races</tr>")?;
    for region in &status.regions {
        let proof = region.proof_age_ms.map_or("none".to_owned(), |age| format!("{} {age} ms ago", region.grade));
        let race = match &region.race {
            race if race.drained => "drained",
            race if race.skipped => "skipped",
            _ => "asked",
        };
        let (name, host) = (escaped(&region.name), escaped(&region.host));
        write!(
            html,
            "<tr><td>{name}<td>{host}<td>{}<td>{proof}<td>{}<td>{race}</tr>",
            region.subscription, region.epoch
        )?;
    }
    write!(html, "</table><p>{} hits, {} misses, ", status.totals.hits, status.totals.misses)?;
    write!(html, "{} entries of {} bytes together</p>", status.cache.entries, status.cache.bytes)?;
    links(html, READY)
}

/// The page of a service that is no sidecar.
pub(super) fn service_page(title: &str, state: &str, reasons: &[String]) -> String {
    let mut html = String::with_capacity(2 << 10);
    write_service_page(&mut html, &escaped(title), state, reasons).expect("writing to a String cannot fail");
    html
}

fn write_service_page(html: &mut String, title: &str, state: &str, reasons: &[String]) -> std::fmt::Result {
    write!(html, "<!doctype html><html lang=en><meta charset=utf-8><title>Nearside: {title}</title>")?;
    write!(html, "<style>{STYLE}</style><h1>Nearside {title}</h1>")?;
    write!(html, "<p><strong>{state}</strong>, version {}</p>", env!("CARGO_PKG_VERSION"))?;
    lines(html, "What is not as it should be", reasons)?;
    links(html, SERVICE_READY)
}

fn links(html: &mut String, ready: (&str, &str)) -> std::fmt::Result {
    write!(html, "<ul>")?;
    for (path, what) in std::iter::once(ready).chain(LINKS) {
        write!(html, "<li><a href=\"{path}\">{path}</a>: {what}</li>")?;
    }
    write!(html, "</ul></html>")
}

fn lines(html: &mut String, title: &str, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    write!(html, "<h2>{title}</h2><ul>")?;
    for line in lines {
        write!(html, "<li>{}</li>", escaped(line))?;
    }
    write!(html, "</ul>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
