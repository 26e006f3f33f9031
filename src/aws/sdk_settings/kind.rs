//! Forms that a setting's value may have, and the files that some name.

use std::io::Read;
use std::path::Path;

use url::Url;

use crate::aws::limits::PROFILE_FILE_BYTES;
use crate::config::error::ConfigProblem;

/// Form of a value.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Url,
    Bool,
    /// A whole number from this one on.
    From(u64),
    OneOf(&'static [&'static str]),
    /// Goes into a header: no space, line end or other control character.
    Token,
    /// Goes into a header among other words.
    Words,
    /// A file that can be read to its end.
    File,
    Arn,
    /// From its slash on.
    Rooted,
    Session,
    Region,
}

impl Kind {
    /// The fault of a value, which is never printed: it may be a secret.
    pub(super) fn wrong(self, value: &str) -> Option<ConfigProblem> {
        match self {
            Self::Url if !is_url(value) => problem("no http or https URL", "write it as https://HOST[:PORT]"),
            Self::Bool if !["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)) => {
                problem("neither true nor false", "write true or false, or remove it")
            }
            Self::From(least) if value.parse::<u32>().map_or(true, |number| u64::from(number) < least) => {
                problem("no whole number, or too small", &format!("write a number from {least} on, or remove it"))
            }
            Self::OneOf(words) if !words.iter().any(|word| value.eq_ignore_ascii_case(word)) => {
                problem("unknown word", &format!("write one of {}, or remove it", words.join(", ")))
            }
            Self::Token if !is_visible(value) => problem(
                "holds a space, a line end or another character that no header takes",
                "write it without that",
            ),
            Self::Words if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) => {
                problem("holds a line end or another character that no header takes", "write it without that")
            }
            Self::File => contents(Path::new(value)).err().map(|why| why.problem(Path::new(value))),
            Self::Arn if !value.starts_with("arn:") || value.split(':').count() < 6 || !is_visible(value) => {
                problem("no ARN", "write it as arn:aws:iam::ACCOUNT:role/NAME")
            }
            Self::Rooted if !value.starts_with('/') || !is_visible(value) => {
                problem("no path", "write it from its first slash on")
            }
            Self::Session if !(2..=64).contains(&value.len()) || !value.bytes().all(is_of_session) => {
                problem("no session name", "write 2 to 64 letters, digits or any of _+=,.@-")
            }
            Self::Region if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
                problem("no region's name", "write one such as eu-west-1; a topic's region is in its ARN")
            }
            _ => None,
        }
    }
}

fn problem(what: &str, instead: &str) -> Option<ConfigProblem> {
    Some(ConfigProblem::new(what, instead))
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

const fn is_of_session(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'=' | b',' | b'.' | b'@' | b'-')
}

fn is_url(value: &str) -> bool {
    is_visible(value) && Url::parse(value).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// The reason why a file was not read.
pub(super) enum NotRead {
    Absent,
    /// A directory, a pipe, a device: reading it may never end.
    NoFile,
    TooLarge,
    NoText,
    Failed(std::io::Error),
}

impl NotRead {
    pub(super) fn problem(&self, path: &Path) -> ConfigProblem {
        let path = path.display();
        let (what, instead) = match self {
            Self::Absent => (format!("{path} does not exist"), "mount the file, or remove the variable"),
            Self::NoFile => (format!("{path} is no regular file"), "name a file"),
            Self::TooLarge => (format!("{path} is larger than 1 MiB"), "name a profile or token file"),
            Self::NoText => (format!("{path} is not UTF-8"), "write it as UTF-8"),
            Self::Failed(why) => {
                (format!("{path} cannot be read: {}", why.kind()), "let this process's user read it")
            }
        };
        ConfigProblem::new(what, instead)
    }
}

/// A file's text. `/dev/null` is an empty one.
pub(super) fn contents(path: &Path) -> Result<String, NotRead> {
    if path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    if !std::fs::metadata(path).map_err(not_read)?.is_file() {
        return Err(NotRead::NoFile);
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(not_read)?;
    file.take(PROFILE_FILE_BYTES + 1).read_to_end(&mut text).map_err(not_read)?;
    if text.len() as u64 > PROFILE_FILE_BYTES {
        return Err(NotRead::TooLarge);
    }
    String::from_utf8(text).map_err(|_| NotRead::NoText)
}

fn not_read(why: std::io::Error) -> NotRead {
    match why.kind() {
        std::io::ErrorKind::NotFound => NotRead::Absent,
        _ => NotRead::Failed(why),
    }
}
