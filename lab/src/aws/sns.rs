//! The SNS Query protocol: a form in, XML out. [`super::topic`] does the work. Errors have the
//! shape and the codes that the AWS SDKs parse.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use http::StatusCode;

use super::subscription::{EmulatedSubscription, Endpoint};
use super::topic::{TopicFault, Topics};
use crate::aws::topic::region_of;
use crate::limits;

/// The parameters of a call as they came.
pub type Fields = BTreeMap<String, String>;

/// The status and the XML.
pub type SnsAnswer = (StatusCode, String);

/// Parses `Action=...&...`; parameters beyond the limit are dropped.
pub fn form(text: &[u8]) -> Fields {
    url::form_urlencoded::parse(text).into_owned().take(4 * limits::LAB_TAGS).collect()
}

/// Carries out one call in `region`.
pub fn call(topics: &Arc<Topics>, region: &str, form: &Fields) -> SnsAnswer {
    let action = form.get("Action").map_or("", String::as_str);
    match command(topics, region, action, form) {
        Ok(result) => {
            let result =
                if result.is_empty() { result } else { format!("<{action}Result>{result}</{action}Result>") };
            let request = crate::uuid::random();
            let xml = format!(
                "<{action}Response xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">{result}<ResponseMetadata>\
                 <RequestId>{request}</RequestId></ResponseMetadata></{action}Response>"
            );
            (StatusCode::OK, xml)
        }
        Err(fault) => {
            let (status, code) = match fault {
                TopicFault::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
                TopicFault::Invalid("Action") => (StatusCode::BAD_REQUEST, "InvalidAction"),
                TopicFault::Invalid(_) => (StatusCode::BAD_REQUEST, "InvalidParameter"),
                TopicFault::Limit(_) => (StatusCode::FORBIDDEN, "SubscriptionLimitExceeded"),
            };
            error(status, code, &fault.to_string())
        }
    }
}

/// An error as the Query protocol writes it.
pub fn error(status: StatusCode, code: &str, message: &str) -> SnsAnswer {
    let (message, request) = (escaped(message), crate::uuid::random());
    let xml = format!(
        "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>Sender</Type>\
         <Code>{code}</Code><Message>{message}</Message></Error><RequestId>{request}</RequestId></ErrorResponse>"
    );
    (status, xml)
}

fn command(topics: &Arc<Topics>, region: &str, action: &str, form: &Fields) -> Result<String, TopicFault> {
    match action {
        "CreateTopic" => {
            let name = get(form, "Name")?;
            if !is_topic_name(name) {
                return Err(TopicFault::Invalid("Topic Name"));
            }
            topics.create(region, name).map(|arn| element("TopicArn", &arn))
        }
        "ListTopics" => {
            let members: String =
                topics.arns(region).iter().map(|arn| element("TopicArn", arn)).map(member).collect();
            Ok(format!("<Topics>{members}</Topics>"))
        }
        "Subscribe" => subscribe(topics, region, form),
        "ConfirmSubscription" => {
            let arn = topics.confirm(here(form, "TopicArn", region)?, get(form, "Token")?)?;
            Ok(element("SubscriptionArn", &arn))
        }
        "Unsubscribe" => {
            topics.unsubscribe(here(form, "SubscriptionArn", region)?);
            Ok(String::new())
        }
        "GetSubscriptionAttributes" => {
            let subscription = topics.subscription(here(form, "SubscriptionArn", region)?)?;
            let entries: String = subscription
                .attributes()
                .into_iter()
                .map(|(name, value)| format!("<entry>{}{}</entry>", element("key", &name), element("value", &value)))
                .collect();
            Ok(format!("<Attributes>{entries}</Attributes>"))
        }
        "SetSubscriptionAttributes" => {
            let arn = here(form, "SubscriptionArn", region)?;
            let value = form.get("AttributeValue").map_or("", String::as_str);
            topics.set_attribute(arn, get(form, "AttributeName")?, value)?;
            Ok(String::new())
        }
        "ListSubscriptionsByTopic" => {
            let topic = here(form, "TopicArn", region)?;
            Ok(listed(&topics.subscriptions(region, Some(topic))?))
        }
        "ListSubscriptions" => Ok(listed(&topics.subscriptions(region, None)?)),
        "Publish" => {
            let topic =
                form.get("TopicArn").or_else(|| form.get("TargetArn")).ok_or(TopicFault::Invalid("TopicArn"))?;
            if region_of(topic) != Some(region) {
                return Err(TopicFault::Invalid("TopicArn"));
            }
            let subject = form.get("Subject").map(String::as_str);
            let id = topics.publish(topic, subject, get(form, "Message")?)?;
            Ok(element("MessageId", &id))
        }
        "PublishBatch" => publish_batch(topics, region, form),
        _ => Err(TopicFault::Invalid("Action")),
    }
}

fn is_topic_name(name: &str) -> bool {
    (1..=256).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Each entry stands for itself: one that is refused does not hold up the others.
fn publish_batch(topics: &Arc<Topics>, region: &str, form: &Fields) -> Result<String, TopicFault> {
    let topic = here(form, "TopicArn", region)?;
    let (mut taken, mut refused) = (String::new(), String::new());
    for number in 1..=BATCH_ENTRIES {
        let Some(id) = batch_field(form, number, "Id") else { break };
        let message = batch_field(form, number, "Message").ok_or(TopicFault::Invalid("Message"))?;
        match topics.publish(topic, None, message) {
            Ok(message) => taken += &member(element("Id", id) + &element("MessageId", &message)),
            Err(fault) => {
                let code = element("Id", id) + &element("Code", "InvalidParameter");
                refused += &member(code + &element("Message", &fault.to_string()) + &element("SenderFault", "true"));
            }
        }
    }
    if taken.is_empty() && refused.is_empty() {
        return Err(TopicFault::Invalid("PublishBatchRequestEntries"));
    }
    Ok(format!("<Successful>{taken}</Successful><Failed>{refused}</Failed>"))
}

/// A field of the entry with this number.
fn batch_field<'a>(form: &'a Fields, number: usize, name: &str) -> Option<&'a String> {
    form.get(&format!("PublishBatchRequestEntries.member.{number}.{name}"))
}

/// SNS takes no more in one call.
const BATCH_ENTRIES: usize = 10;

fn subscribe(topics: &Arc<Topics>, region: &str, form: &Fields) -> Result<String, TopicFault> {
    let topic = here(form, "TopicArn", region)?;
    let endpoint = get(form, "Endpoint")?;
    let endpoint = match get(form, "Protocol")? {
        "sqs" if endpoint.starts_with("arn:aws:sqs:") => Endpoint::Sqs(endpoint.to_owned()),
        "http" => Endpoint::Http(loopback(endpoint)?),
        "sqs" => return Err(TopicFault::Invalid("Endpoint")),
        _ => return Err(TopicFault::Invalid("Protocol")),
    };
    let subscription = topics.subscribe(topic, endpoint, entries(form, "Attributes"))?;
    let wants_arn = form.get("ReturnSubscriptionArn").is_some_and(|wants| wants == "true");
    let arn = if subscription.is_confirmed() || wants_arn { &subscription.arn } else { "pending confirmation" };
    Ok(element("SubscriptionArn", arn))
}

/// An `http` URL on loopback, because this emulator posts nowhere else.
fn loopback(endpoint: &str) -> Result<url::Url, TopicFault> {
    let url = url::Url::parse(endpoint).map_err(|_| TopicFault::Invalid("Endpoint"))?;
    let local = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() == "http" && local {
        Ok(url)
    } else {
        Err(TopicFault::Invalid("Endpoint (this emulator posts to loopback)"))
    }
}

/// The pairs of `NAME.entry.N.key` and `NAME.entry.N.value`.
fn entries(form: &Fields, name: &str) -> BTreeMap<String, String> {
    let prefix = format!("{name}.entry.");
    let keys = form.iter().filter_map(|(parameter, key)| {
        let number = parameter.strip_prefix(&prefix)?.strip_suffix(".key")?;
        let value = form.get(&format!("{prefix}{number}.value"))?;
        Some((key.clone(), value.clone()))
    });
    keys.take(limits::LAB_TAGS).collect()
}

fn get<'a>(form: &'a Fields, name: &'static str) -> Result<&'a str, TopicFault> {
    form.get(name).map(String::as_str).ok_or(TopicFault::Invalid(name))
}

/// An ARN of this region; SNS does not know those of other regions.
fn here<'a>(form: &'a Fields, name: &'static str, region: &str) -> Result<&'a str, TopicFault> {
    let arn = get(form, name)?;
    if arn.starts_with("arn:aws:sns:") && region_of(arn) == Some(region) {
        Ok(arn)
    } else {
        Err(TopicFault::Invalid(name))
    }
}

fn listed(subscriptions: &[Arc<EmulatedSubscription>]) -> String {
    let members: String = subscriptions.iter().map(|one| described(one)).collect();
    format!("<Subscriptions>{members}</Subscriptions>")
}

fn described(one: &EmulatedSubscription) -> String {
    let arn = if one.is_confirmed() { &one.arn } else { "PendingConfirmation" };
    let fields = [
        ("TopicArn", one.topic.as_str()),
        ("Protocol", one.endpoint.protocol()),
        ("SubscriptionArn", arn),
        ("Owner", super::queue::ACCOUNT),
        ("Endpoint", one.endpoint.text()),
    ];
    member(fields.iter().map(|(name, value)| element(name, value)).collect())
}

fn member(inner: String) -> String {
    format!("<member>{inner}</member>")
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has no other control characters; writing to a String cannot fail.
            letter if letter.is_control() => drop(write!(out, "&#{};", u32::from(letter))),
            letter => out.push(letter),
        }
        out
    })
}
