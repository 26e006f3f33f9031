//! Forms and fields over a whole sidecar in virtual time.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::request::scripted::{A, Act, Answer, REGIONS, Say, World, body};

mod fields;
mod forms;
mod mixed;
mod remembered;

fn lines(lines: &[(&'static str, &str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

async fn get(world: &World, path: &str, sent: &[(&'static str, &str)]) -> Answer {
    world.ask(Method::GET, path, lines(sent)).await
}

fn json(text: &str) -> Say {
    tagged(text, "\"v1\"")
}

fn tagged(text: &str, tag: &str) -> Say {
    body(text.to_owned()).with("content-type", "application/json").with("etag", tag)
}

fn all(say: Say) -> [(u64, Act); REGIONS] {
    [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())]
}
