//! The SQS JSON protocol: `x-amz-target: AmazonSQS.Action`, JSON 1.0 in and out. [`super::queue`]
//! does the work. Errors have the shape and the codes that the AWS SDKs parse, in both the JSON and
//! the query-compatible form. MD5 sums are left out, because the protocol makes them optional and
//! nothing here could damage a body.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::queue::{ACCOUNT, EmulatedQueue, EmulatedQueues, Received};
use crate::limits;

/// Why SQS would refuse a call. The fault is always the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SqsFault {
    #[error("The specified queue does not exist.")]
    NoQueue,
    /// The queue exists with other attributes, or there is no room.
    #[error("A queue already exists with the same name and a different value for an attribute.")]
    Exists,
    /// An invalid receipt handle.
    #[error("The input receipt handle is invalid.")]
    Receipt,
    /// An invalid parameter.
    #[error("Invalid value for the parameter {0}.")]
    Parameter(&'static str),
    /// An action that this emulator does not have.
    #[error("The action is not known here.")]
    Action,
}

impl SqsFault {
    /// The shape's name, and the code of the old Query protocol.
    pub(super) const fn codes(&self) -> (&'static str, &'static str) {
        match self {
            Self::NoQueue => ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
            Self::Exists => ("QueueNameExists", "QueueAlreadyExists"),
            Self::Receipt => ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"),
            Self::Parameter(_) => ("InvalidParameterValue", "InvalidParameterValue"),
            Self::Action => ("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"),
        }
    }
}

/// The status, the JSON, and for an error the `x-amzn-query-error` header.
pub(super) type SqsAnswer = (StatusCode, String, Option<String>);

/// Carries out one call in `region`; queue URLs begin with `base`.
pub(super) async fn call(queues: &EmulatedQueues, region: &str, base: &str, action: &str, body: &[u8]) -> SqsAnswer {
    let input: Value = serde_json::from_slice(body).unwrap_or_default();
    match (Call { queues, region, base, input: &input }).command(action).await {
        Ok(Value::Null) => (StatusCode::OK, "{}".to_owned(), None),
        Ok(output) => (StatusCode::OK, output.to_string(), None),
        Err(fault) => {
            let (shape, code) = fault.codes();
            let json = json!({ "__type": format!("com.amazonaws.sqs#{shape}"), "message": fault.to_string() });
            (StatusCode::BAD_REQUEST, json.to_string(), Some(format!("{code};Sender")))
        }
    }
}

struct Call<'a> {
    queues: &'a EmulatedQueues,
    region: &'a str,
    base: &'a str,
    input: &'a Value,
}

impl Call<'_> {
    async fn command(&self, action: &str) -> Result<Value, SqsFault> {
        match action {
            "CreateQueue" => self.create(),
            "GetQueueUrl" => {
                let name = self.text("QueueName")?;
                self.queues.find(self.region, name).ok_or(SqsFault::NoQueue)?;
                Ok(json!({ "QueueUrl": self.url(name) }))
            }
            "ListQueues" => {
                let prefix = self.input["QueueNamePrefix"].as_str().unwrap_or("");
                let names = self.queues.names(self.region, prefix);
                Ok(json!({ "QueueUrls": names.iter().map(|name| self.url(name)).collect::<Vec<_>>() }))
            }
            "DeleteQueue" => {
                let known = self.queues.delete(self.region, self.name()?);
                known.then_some(Value::Null).ok_or(SqsFault::NoQueue)
            }
            "PurgeQueue" => self.queue().map(|queue| queue.purge()).map(|()| Value::Null),
            "GetQueueAttributes" => {
                let wanted = strings(&self.input["AttributeNames"]);
                let mut all = self.queue()?.attributes();
                all.retain(|name, _| wanted.iter().any(|one| one == name || one == "All"));
                Ok(json!({ "Attributes": all }))
            }
            "SetQueueAttributes" => {
                self.queue()?.set_attributes(self.map("Attributes")?);
                Ok(Value::Null)
            }
            "TagQueue" => {
                let fits = self.queue()?.tag(self.map("Tags")?);
                fits.then_some(Value::Null).ok_or(SqsFault::Parameter("Tags"))
            }
            "UntagQueue" => {
                self.queue()?.untag(&strings(&self.input["TagKeys"]));
                Ok(Value::Null)
            }
            "ListQueueTags" => Ok(json!({ "Tags": self.queue()?.tags() })),
            "ReceiveMessage" => self.receive().await,
            "DeleteMessage" => {
                let known = self.queue()?.remove(self.text("ReceiptHandle")?);
                known.then_some(Value::Null).ok_or(SqsFault::Receipt)
            }
            "DeleteMessageBatch" => self.batch(|queue, entry| queue.remove(receipt(entry))),
            "ChangeMessageVisibility" => {
                let span = seconds(&self.input["VisibilityTimeout"], 43_200, "VisibilityTimeout")?;
                let known = self.queue()?.hide(self.text("ReceiptHandle")?, span);
                known.then_some(Value::Null).ok_or(SqsFault::Receipt)
            }
            "ChangeMessageVisibilityBatch" => self.batch(|queue, entry| {
                let span = seconds(&entry["VisibilityTimeout"], 43_200, "VisibilityTimeout");
                span.is_ok_and(|span| queue.hide(receipt(entry), span))
            }),
            _ => Err(SqsFault::Action),
        }
    }

    fn create(&self) -> Result<Value, SqsFault> {
        let name = self.text("QueueName")?;
        if !is_queue_name(name) {
            return Err(SqsFault::Parameter("QueueName"));
        }
        // The SDKs send the tags of CreateQueue as `tags`.
        let tags = if self.input["tags"].is_object() { self.map("tags")? } else { self.map("Tags")? };
        self.queues.create(self.region, name, self.map("Attributes")?, tags).ok_or(SqsFault::Exists)?;
        Ok(json!({ "QueueUrl": self.url(name) }))
    }

    async fn receive(&self) -> Result<Value, SqsFault> {
        let queue = self.queue()?;
        let most = self.input["MaxNumberOfMessages"].as_u64().unwrap_or(1);
        if !(1..=10).contains(&most) {
            return Err(SqsFault::Parameter("MaxNumberOfMessages"));
        }
        let wait = match &self.input["WaitTimeSeconds"] {
            Value::Null => seconds_of(&queue, "ReceiveMessageWaitTimeSeconds"),
            stated => seconds(stated, 20, "WaitTimeSeconds")?,
        };
        let hide = match &self.input["VisibilityTimeout"] {
            Value::Null => None,
            stated => Some(seconds(stated, 43_200, "VisibilityTimeout")?),
        };
        let mut wanted = strings(&self.input["MessageSystemAttributeNames"]);
        wanted.extend(strings(&self.input["AttributeNames"]));
        let found = queue.receive(most as usize, wait, hide).await.ok_or(SqsFault::NoQueue)?;
        if found.is_empty() {
            return Ok(Value::Null);
        }
        Ok(json!({ "Messages": found.iter().map(|one| message(one, &wanted)).collect::<Vec<_>>() }))
    }

    fn batch(&self, one: impl Fn(&EmulatedQueue, &Value) -> bool) -> Result<Value, SqsFault> {
        let queue = self.queue()?;
        let entries = self.input["Entries"].as_array().ok_or(SqsFault::Parameter("Entries"))?;
        if entries.is_empty() || entries.len() > 10 {
            return Err(SqsFault::Parameter("Entries"));
        }
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for entry in entries {
            if one(&queue, entry) {
                done.push(json!({ "Id": entry["Id"] }));
            } else {
                failed.push(json!({ "Id": entry["Id"], "SenderFault": true, "Code": "ReceiptHandleIsInvalid" }));
            }
        }
        Ok(json!({ "Successful": done, "Failed": failed }))
    }

    fn queue(&self) -> Result<Arc<EmulatedQueue>, SqsFault> {
        self.queues.find(self.region, self.name()?).ok_or(SqsFault::NoQueue)
    }

    /// The name at the end of the queue's URL; the URL's host does not matter.
    fn name(&self) -> Result<&str, SqsFault> {
        self.text("QueueUrl")?.rsplit('/').next().filter(|name| !name.is_empty()).ok_or(SqsFault::NoQueue)
    }

    fn url(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.base)
    }

    fn text(&self, name: &'static str) -> Result<&str, SqsFault> {
        self.input[name].as_str().ok_or(SqsFault::Parameter(name))
    }

    fn map(&self, name: &'static str) -> Result<BTreeMap<String, String>, SqsFault> {
        let empty = Map::new();
        let given = match &self.input[name] {
            Value::Null => &empty,
            Value::Object(given) if given.len() <= limits::LAB_TAGS => given,
            _ => return Err(SqsFault::Parameter(name)),
        };
        given
            .iter()
            .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect::<Option<_>>()
            .ok_or(SqsFault::Parameter(name))
    }
}

fn message(one: &Received, wanted: &[String]) -> Value {
    let sent = one.sent.as_millis().to_string();
    let mut attributes = Map::new();
    let known = [
        ("SentTimestamp", sent.clone()),
        ("ApproximateReceiveCount", one.count.to_string()),
        ("ApproximateFirstReceiveTimestamp", sent),
        ("SenderId", "AIDAISMY7JYY5F7RTT6AO".to_owned()),
    ];
    for (name, value) in known {
        if wanted.iter().any(|one| one == name || one == "All") {
            attributes.insert(name.to_owned(), Value::from(value));
        }
    }
    let mut message = json!({ "MessageId": one.id, "ReceiptHandle": one.receipt, "Body": &*one.body });
    if !attributes.is_empty() {
        message["Attributes"] = Value::Object(attributes);
    }
    message
}

fn is_queue_name(name: &str) -> bool {
    (1..=80).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn receipt(entry: &Value) -> &str {
    entry["ReceiptHandle"].as_str().unwrap_or("")
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn seconds(value: &Value, most: u64, name: &'static str) -> Result<Duration, SqsFault> {
    value.as_u64().filter(|stated| *stated <= most).map(Duration::from_secs).ok_or(SqsFault::Parameter(name))
}

fn seconds_of(queue: &EmulatedQueue, attribute: &str) -> Duration {
    let stated = queue.attributes().get(attribute).and_then(|text| text.parse().ok());
    Duration::from_secs(stated.unwrap_or(0).min(20))
}
