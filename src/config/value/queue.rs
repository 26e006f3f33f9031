//! The values that queues are created with, in the form that AWS accepts.

use super::text::{Read, list, text_of};
use crate::config::error::{ConfigProblem, quoted};
use crate::config::limits;
use crate::config::settings::SettingKind;
use crate::config::tree::Raw;

/// See the SQS developer guide, "Amazon SQS cost allocation tags". The names that Nearside sets
/// itself are taken.
pub(in crate::config) fn tags(raw: &Raw, _: SettingKind) -> Read<Vec<(String, String)>> {
    const SUGGESTION: &str = "write `name=value`, such as \"team=contexts\"";
    const TAKEN: [&str; 5] = ["nearside", "alive", "service", "topic", "host"];
    list(raw, limits::QUEUE_TAGS, "tags", |item| {
        let text = text_of(item, SUGGESTION)?;
        let (name, value) = text.split_once('=').map_or((text, ""), |(name, value)| (name.trim(), value.trim()));
        let is_taken = name.starts_with("aws:") || TAKEN.contains(&name);
        if is_taken || name.starts_with("nearside:") {
            return Err(ConfigProblem::new(
                format!("the tag {} is not yours to set", quoted(name)),
                "choose another name",
            ));
        }
        let is_plain = text.chars().all(|char| char.is_alphanumeric() || " _.:/=+-@".contains(char));
        let fits = text.contains('=') && (1..=128).contains(&name.chars().count()) && value.chars().count() <= 256;
        if fits && is_plain {
            Ok((name.to_owned(), value.to_owned()))
        } else {
            Err(ConfigProblem::new(format!("{} is no tag", quoted(text)), SUGGESTION))
        }
    })
}

/// Not an ARN, since each topic's region has its own keys.
pub(in crate::config) fn kms_key(raw: &Raw, _: SettingKind) -> Read<String> {
    const SUGGESTION: &str = "write an alias that every topic's region has, such as \"alias/queues\", or a key's id";
    let text = text_of(raw, SUGGESTION)?;
    if text.starts_with("alias/aws/") {
        let what = format!("{} is AWS's own key, which SNS may not use", quoted(text));
        return Err(ConfigProblem::new(what, "write a key of yours whose policy admits sns.amazonaws.com"));
    }
    let name = text.strip_prefix("alias/").unwrap_or(text);
    let more: &[u8] = if name == text { b"-_" } else { b"-_/" };
    let fits = (1..=250).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
    if fits {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new(format!("{} is no key", quoted(text)), SUGGESTION))
    }
}
